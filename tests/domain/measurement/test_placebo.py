"""Templates that cannot read the slot: left out of the comparison, and a check on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from yume.domain.measurement.looks import Injected, look
from yume.domain.measurement.placebo import blind_templates
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.window import Past

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NOW = START + 400 * DAY


def runs(day, version, template, fails, size=40):
    return [
        RunFact(
            version,
            "reported",
            outcome,
            None,
            runs=count,
            batch=UUID(int=day),
            template_version=template,
            first_at=START + day * DAY,
            last_at=START + day * DAY,
        )
        for outcome, count in (("success", size - fails), ("failure", fails))
    ]


def history(*, blind_before, blind_after, reads="1"):
    before = [fact for day in range(90, 99) for fact in runs(day, "0", "reads", 12)]
    after = [fact for day in range(101, 106) for fact in runs(day, reads, "reads", 4)]
    blind = [fact for day in range(90, 99) for fact in runs(day, "0", "blind", blind_before)]
    blind += [fact for day in range(101, 106) for fact in runs(day, "0", "blind", blind_after)]
    return before + after + blind


def measured(facts, version="1", past=None):
    injected = Injected(version, START + 100 * DAY, frozenset({UUID(int=99)}))
    return look(facts, injected, past=past or {}, now=NOW)


def test_a_gain_is_believed_where_those_who_read_nothing_stayed_as_they_were():
    made = measured(history(blind_before=12, blind_after=12))
    assert (made.comparison.verdict, made.placebo.moved) == ("improved", False)
    assert made.placebo.templates == ("blind",)
    assert made.to_json()["placebo"]["reference"] == {"runs": 360, "failures": 108}


def test_a_gain_is_drift_where_those_who_read_nothing_gained_as_well():
    made = measured(history(blind_before=12, blind_after=3))
    assert (made.comparison.verdict, made.comparison.reason) == ("not_comparable", "drift")
    assert made.placebo.moved
    assert made.placebo.comparison.new_runs == 200


def test_fewer_than_fifty_runs_of_theirs_say_nothing():
    few = [each for each in history(blind_before=12, blind_after=3) if each.template_version == "reads"]
    few += runs(95, "0", "blind", 30) + runs(103, "0", "blind", 1)
    made = measured(few)
    assert (made.comparison.verdict, made.placebo) == ("improved", None)


def test_a_template_that_was_gone_before_the_first_version_is_no_placebo():
    known = history(blind_before=12, blind_after=12)
    gone = [each for each in known if each.template_version == "reads" or each.last_at < START + 100 * DAY]
    assert blind_templates(gone) == frozenset()
    assert blind_templates(known) == {"blind"}


def test_runs_that_read_nothing_do_not_cut_the_reference_of_the_next_version_short():
    known = [*history(blind_before=12, blind_after=12)]
    known += [fact for day in range(111, 114) for fact in runs(day, "2", "reads", 4)]
    injected = Injected("2", START + 110 * DAY, frozenset({UUID(int=105)}))
    made = look(known, injected, past={"1": Past("improved")}, now=NOW)
    assert [each.batch.int for each in made.window.batches] == [104, 103, 102, 101]
    assert made.window.versions == ("1",)
