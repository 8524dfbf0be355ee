"""Which batches a version is compared with: whole ones, before it, without the one that made it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from yume.domain.measurement.looks import Injected, look
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.window import Past, VersionedBatch, reference

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NOW = START + 400 * DAY


def batch(day, version="0", runs=40, settled=None):
    return VersionedBatch(
        UUID(int=day), version, runs, runs if settled is None else settled, START + day * DAY
    )


def days(history, *, at=100, made_from=(), past=None, now=NOW):
    window = reference(
        history,
        injected_at=START + at * DAY,
        made_from={UUID(int=day) for day in made_from},
        past=past or {},
        now=now,
    )
    return sorted(each.batch.int for each in window.batches), window.versions


def test_batches_before_the_version_count_newest_first_until_there_are_enough_runs():
    chosen, _ = days([batch(day) for day in range(70, 120)])
    assert chosen == list(range(90, 100))


def test_nothing_is_compared_that_is_older_than_sixty_days():
    chosen, _ = days([batch(day, runs=10) for day in range(20, 100, 10)])
    assert chosen == [40, 50, 60, 70, 80, 90]


def test_the_batch_that_made_the_version_is_left_out_whole():
    chosen, _ = days([batch(day) for day in range(92, 100)], made_from=[99])
    assert chosen == list(range(92, 99))


def test_versions_without_a_verdict_are_pooled_to_the_last_one_with_a_verdict():
    history = [batch(80, "0"), batch(85, "1"), batch(90, "2"), batch(95, "3")]
    assert days(history) == ([80, 85, 90, 95], ("3", "2", "1", "0"))
    decided = {"2": Past("improved")}
    assert days(history, past=decided) == ([90, 95], ("3", "2"))


def test_a_version_that_was_rolled_back_is_skipped():
    history = [batch(90, "1"), batch(95, "2")]
    assert days(history, past={"2": Past("regressed", rolled_back=True)}) == ([90], ("1",))


def test_a_batch_waits_for_its_verdicts_but_not_for_ever():
    history = [batch(98), batch(99, settled=30)]
    now = START + 100 * DAY
    assert days(history, now=now)[0] == [98]
    assert days(history, now=now + 2 * DAY)[0] == [98, 99]


def fact(day, outcome, runs, *, version="0", **more):
    at = START + day * DAY
    return RunFact(
        version, "reported", outcome, None, batch=UUID(int=day), runs=runs, first_at=at, last_at=at, **more
    )


def facts(*, new_rate=0.1):
    before = [
        fact(day, outcome, runs)
        for day in range(90, 100)
        for outcome, runs in (("success", 28), ("failure", 12))
    ]
    bad = round(40 * new_rate)
    after = [
        fact(day, outcome, runs, version="7")
        for day in range(101, 106)
        for outcome, runs in (("success", 40 - bad), ("failure", bad))
    ]
    return before + after


def measured(known, **options):
    injected = Injected("7", START + 100 * DAY, frozenset({UUID(int=99)}))
    return look(known, injected, **{"past": {}, "now": NOW} | options)


def test_a_look_compares_the_new_version_with_its_window():
    made = measured(facts())
    assert (made.comparison.verdict, made.window.versions) == ("improved", ("0",))
    assert made.comparison.reference_runs == 9 * 40
    assert made.comparison.new_runs == 5 * 40
    told = made.to_json()
    assert told["evidence"] == "observational"
    assert len(told["cells"]) == 14
    assert told["cs95"][1] < 0


def test_runs_of_which_nobody_knows_the_version_are_counted_and_many_forbid_a_verdict():
    lost = fact(103, "success", 80, version=None)
    lost = RunFact(
        None,
        "unknown",
        "success",
        None,
        batch=lost.batch,
        runs=80,
        first_at=lost.first_at,
        last_at=lost.last_at,
    )
    made = measured([*facts(), lost])
    assert made.unknown == 80
    assert made.comparison.reason == "unknown_version"


def test_runs_without_a_final_word_wait():
    pending = fact(106, "unknown", 10, version="7", settled=False)
    made = measured([*facts(), pending], now=START + 107 * DAY)
    assert made.pending == 10
    assert UUID(int=106) not in made.batches


@pytest.mark.parametrize("what", ["template_version", "agent_model", "taxonomy"])
def test_what_changed_beside_the_version_is_named(what):
    old, new = (
        [fact(day, "success", 20, version=version, **{what: value}) for day in span]
        for span, version, value in ((range(95, 99), "0", "a"), (range(101, 104), "7", "b"))
    )
    (found,) = measured([*old, *new]).confounders
    assert (found.what, found.reference, found.new) == (what, ("a",), ("b",))
    assert measured(facts()).confounders == ()


def test_more_lost_runs_with_the_version_forbid_to_call_it_an_improvement():
    lost = [fact(day, "infrastructure", 15, version="7") for day in range(101, 106)]
    made = measured([*facts(), *lost])
    assert made.to_json()["infrastructure_flag"] is True
    assert made.comparison.reason == "infrastructure"


def test_cancelled_runs_count_nowhere():
    cancelled = [fact(day, "cancelled", 500, version="7") for day in range(101, 106)]
    assert measured([*facts(), *cancelled]).to_json() == measured(facts()).to_json()
