"""Signals, their labels, and the trail that leads from a lesson back to them."""

from __future__ import annotations

from yume.domain.signals import Found, Pointer
from yume.domain.taxonomy import Label
from yume.ids import SignalId, TaxonomyId, new_id
from yume.store import dreams, evidence
from yume.store.evidence import Placed, Pulled

SHA256 = "cd" * 32
OLD = "ab" * 32  # of the records that `rows` makes


async def test_a_signal_that_is_saved_twice_is_one_row_and_stays(db, rows, series, dream):
    run = await rows.run(series, dream)
    signal = await rows.signal(dream, run, excerpt="first")
    await rows.signal(dream, run, excerpt="second", signal=signal)
    (found,) = await evidence.signals_of(db, [dream], TaxonomyId(new_id()))
    assert (found.id, found.excerpt) == (signal, "first")


async def test_a_signal_is_read_as_it_was_saved(db, rows, series, dream):
    run = await rows.run(series, dream)
    pointer = Pointer("/events/3/a~1b", 2, 5)
    found = Found("verifier", "verifier", pointer, "wrong\tresult\n夢", "f9")
    placed = Placed(SignalId(new_id()), run, 4, SHA256, found)
    await evidence.save_signals(db, dream, "1", [placed])
    (read,) = await evidence.signals_of(db, [dream], series.taxonomy_id)
    assert (read.id, read.run_id, read.task_id, read.ordinal) == (placed.id, run, "task-1", 4)
    assert (read.kind, read.source_class, read.pointer) == ("verifier", "verifier", pointer)
    assert (read.excerpt, read.fingerprint, read.code) == (found.excerpt, "f9", None)


async def test_signals_come_task_by_task_in_the_order_of_the_record(db, rows, series, dream):
    made = {}
    for task in ("b", "a"):
        run = await rows.run(series, dream, task)
        for ordinal in (1, 0):
            made[task, ordinal] = await rows.signal(dream, run, ordinal=ordinal)
    found = [each.id for each in await evidence.signals_of(db, [dream], series.taxonomy_id)]
    assert found == [made[key] for key in sorted(made)]


async def test_signals_by_id_are_those_of_the_series(db, rows, series, dream, signal):
    other = await rows.series("another")
    foreign_dream = await rows.dream(other)
    foreign = await rows.signal(foreign_dream, await rows.run(other, foreign_dream))
    found = await evidence.signals_by_id(db, series.id, [signal, foreign, SignalId(new_id())])
    assert list(found) == [signal]


async def test_all_signals_of_a_fingerprint_are_labelled_and_no_others(db, rows, series, dream):
    run = await rows.run(series, dream)
    for ordinal, fingerprint in enumerate(["f1", "f2", "f1"]):
        await rows.signal(dream, run, ordinal=ordinal, fingerprint=fingerprint)
    await evidence.save_labels(db, [dream], series.taxonomy_id, {"f1": Label("state_rot", 0.8, "rule:x")})
    found = await evidence.signals_of(db, [dream], series.taxonomy_id)
    assert [each.code for each in found] == ["state_rot", None, "state_rot"]


async def test_a_label_that_was_given_stays(db, series, dream, signal):
    for label in (Label("state_rot", 0.8, "rule:x"), Label("token_burn", 0.9, "model:y")):
        await evidence.save_labels(db, [dream], series.taxonomy_id, {"f1": label})
    labels = await db.fetchval("SELECT labels FROM yume.signals WHERE id = $1", signal)
    assert labels == {str(series.taxonomy_id): {"code": "state_rot", "confidence": 0.8, "by": "rule:x"}}


async def test_another_taxonomy_labels_beside_the_first(db, series, dream, signal):
    other = TaxonomyId(new_id())
    await evidence.save_labels(db, [dream], series.taxonomy_id, {"f1": Label("state_rot", 0.8, "rule:x")})
    await evidence.save_labels(db, [dream], other, {"f1": Label("wrong_result", 0.7, "model:y")})
    codes = [(await evidence.signals_of(db, [dream], name))[0].code for name in (series.taxonomy_id, other)]
    assert codes == ["state_rot", "wrong_result"]


async def test_the_trail_of_a_lesson_leads_to_its_records_in_the_order_it_cites(db, rows, series, dream):
    signals = [await rows.signal(dream, await rows.run(series, dream, task)) for task in ("a", "b", "c")]
    lesson = await rows.lesson(series, [signals[2], signals[0]])
    trail = await evidence.trail_of(db, lesson)
    assert [(each.signal.id, each.raw_key) for each in trail] == [
        (signals[2], f"runs/c/{OLD}.json"),
        (signals[0], f"runs/a/{OLD}.json"),
    ]
    assert {(each.platform, each.series) for each in trail} == {("tobatsu", "kamila")}


async def test_a_trail_leads_to_the_record_that_the_signal_was_found_in(db, rows, series, dream):
    signal = await rows.signal(dream, await rows.run(series, dream, "a"))
    lesson = await rows.lesson(series, [signal])
    changed = Pulled("a", raw_key=f"runs/a/{SHA256}.json", raw_sha256=SHA256)
    await evidence.save_pulled_runs(db, series.id, dream, [changed], rows.now)
    (stop,) = await evidence.trail_of(db, lesson)
    assert (stop.raw_key, stop.signal_raw_sha256) == (f"runs/a/{OLD}.json", OLD)


async def _extracted(db, dream, run, extractor: str, excerpt: str) -> None:
    found = Found("exit_code", "exit_code", Pointer("/runs/0/exit_code", 1, 1), excerpt, "f1")
    await evidence.save_signals(db, dream, extractor, [Placed(SignalId(new_id()), run, 0, OLD, found)])


async def _excerpts(db, dreams, series):
    return [each.excerpt for each in await evidence.signals_of(db, dreams, series.taxonomy_id)]


async def test_of_a_run_that_was_extracted_anew_what_the_newest_extractor_found_counts(
    db, rows, series, dream
):
    again, once = [await rows.run(series, dream, task) for task in ("again", "once")]
    await _extracted(db, dream, again, "1", "old")
    await _extracted(db, dream, once, "1", "only")
    await dreams.finish(db, dream, rows.now)
    replay = await rows.dream(series)
    await _extracted(db, replay, again, "2", "new")
    assert await _excerpts(db, [dream, replay], series) == ["new", "only"]
    assert await _excerpts(db, [dream], series) == ["old", "only"]  # the original saw no other


async def test_the_signals_of_every_dream_that_is_named_are_labelled_and_no_others(db, rows, series, dream):
    await rows.signal(dream, await rows.run(series, dream, "a"))
    await dreams.finish(db, dream, rows.now)
    second = await rows.dream(series)
    await rows.signal(second, await rows.run(series, second, "b"))
    label = {"f1": Label("state_rot", 0.8, "rule:x")}
    await evidence.save_labels(db, [second], series.taxonomy_id, label)
    found = await evidence.signals_of(db, [dream, second], series.taxonomy_id)
    assert [each.code for each in found] == [None, "state_rot"]
    await evidence.save_labels(db, [dream, second], series.taxonomy_id, label)
    found = await evidence.signals_of(db, [dream, second], series.taxonomy_id)
    assert [each.code for each in found] == ["state_rot", "state_rot"]
