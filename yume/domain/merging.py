"""How drafts meet the lessons that a series already has: typed operations, each checked alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, assert_never
from uuid import UUID

from yume.domain.lessons import Draft, Lesson
from yume.domain.signals import TRUST, least_trusted
from yume.ids import LessonId

OperationKind = Literal["add", "merge", "supersede", "retire", "keep", "duplicate", "conflict"]

LOSS_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Operation:
    """What happens to some lessons; `sources` and `replaces` together are the inputs that it disposes of.

    | kind | lesson | sources | replaces |
    |---|---|---|---|
    | add | the draft | the draft | - |
    | merge | the new text | the drafts merged | the approved lessons merged |
    | supersede | the draft that is newer | the draft | the approved lessons it takes the place of |
    | retire | the approved lesson | - | the approved lesson |
    | keep | the approved lesson | the approved lesson | - |
    | duplicate | the approved lesson that says it already | the draft | - |
    | conflict | the approved lesson that says otherwise, and stays | the draft | - |
    """

    kind: OperationKind
    lesson: LessonId
    sources: tuple[LessonId, ...]
    replaces: tuple[LessonId, ...]
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return what `dream_runs.operations` keeps."""
        return {
            "kind": self.kind,
            "lesson": str(self.lesson),
            "sources": [str(each) for each in self.sources],
            "replaces": [str(each) for each in self.replaces],
            "why": self.why,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Operation:
        """Read what `to_json` wrote."""
        return cls(
            row["kind"],
            LessonId(UUID(row["lesson"])),
            tuple(LessonId(UUID(each)) for each in row["sources"]),
            tuple(LessonId(UUID(each)) for each in row["replaces"]),
            row["why"],
        )

    @property
    def inputs(self) -> tuple[LessonId, ...]:
        """Return the lessons whose one disposition this is."""
        return self.sources + self.replaces

    @property
    def destructive(self) -> bool:
        """Say whether an approved text would go or change."""
        return bool(self.replaces)


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that does not stand, its place among those proposed, a code, and why."""

    place: int
    operation: Operation
    code: str
    why: str


Objection = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that one merge has to dispose of, and the new texts that it may put in its place."""

    drafts: Mapping[LessonId, Draft]
    lessons: Mapping[LessonId, Lesson]
    texts: Mapping[LessonId, Draft]


def inputs_of(drafts: Iterable[Draft], lessons: Iterable[Lesson], texts: Iterable[Draft] = ()) -> Inputs:
    """Index the inputs of a merge by their ids."""
    return Inputs(
        {draft.id: draft for draft in drafts},
        {lesson.id: lesson for lesson in lessons},
        {text.id: text for text in texts},
    )


def loss_cap(lessons: int) -> int:
    """Return how many of the approved lessons one dream may remove or replace."""
    return max(1, int(LOSS_SHARE * lessons))


def combined(kept: Draft, others: Sequence[Draft | Lesson], *, new_id: LessonId) -> Draft:
    """Return the kept text as a new draft on the evidence of all, trusted as the least of them."""
    everyone = (kept, *others)
    return replace(
        kept,
        id=new_id,
        evidence=tuple(dict.fromkeys(each for one in everyone for each in one.evidence)),
        quotes=tuple(dict.fromkeys(each for one in everyone for each in one.quotes)),
        fingerprints=tuple(dict.fromkeys(each for one in everyone for each in one.fingerprints)),
        trust=least_trusted(one.trust for one in everyone if one.trust is not None),
    )


def strength(lesson: Draft | Lesson) -> tuple[int, int]:
    """Order by how well a lesson is founded, the strongest first: trust, then the number of signals."""
    trust = len(TRUST) if lesson.trust is None else TRUST.index(lesson.trust)
    return trust, -len(lesson.evidence)


def settle(operations: Iterable[Operation], inputs: Inputs) -> tuple[list[Operation], list[Refused]]:
    """Check each operation alone and give every input exactly one disposition.

    What an operation refused leaves over stays as it was: an approved lesson is kept, a draft that wanted to
    take its place is a conflict for a person, any other draft is added (and still has to pass the gate).
    """
    accepted: list[Operation] = []
    refused: list[Refused] = []
    for place, operation in enumerate(operations):
        objection = _objection(operation, inputs, accepted)
        if objection is None:
            accepted.append(operation)
        else:
            refused.append(Refused(place, operation, *objection))
    return accepted + _left_over(inputs, accepted, refused), refused


def _objection(operation: Operation, inputs: Inputs, accepted: Sequence[Operation]) -> Objection | None:
    """Say why the operation cannot stand beside those already accepted."""
    return (
        _misshapen(operation, inputs)
        or _already_disposed(operation, accepted)
        or _touches_owner(operation, inputs)
        or _loses_too_much(operation, inputs, accepted)
        or _loses_its_target(operation, accepted)
        or _too_weak(operation, inputs)
    )


def _misshapen(operation: Operation, inputs: Inputs) -> Objection | None:
    if _fits(operation, inputs):
        return None
    shape = f"{len(operation.sources)} sources and {len(operation.replaces)} lessons to replace"
    return "misshapen", f"{operation.kind} with {shape} does not name known lessons of its kind"


def _fits(operation: Operation, inputs: Inputs) -> bool:
    sources, replaces, lesson = operation.sources, operation.replaces, operation.lesson
    if operation.kind == "keep":
        return lesson in inputs.lessons and sources == (lesson,) and not replaces
    if not (set(sources) <= inputs.drafts.keys() and set(replaces) <= inputs.lessons.keys()):
        return False
    match operation.kind:
        case "add":
            fits = sources == (lesson,) and not replaces
        case "merge":
            fits = bool(sources) and len(operation.inputs) > 1 and lesson in inputs.texts
        case "supersede":
            fits = sources == (lesson,) and bool(replaces)
        case "retire":
            fits = not sources and replaces == (lesson,)
        case "duplicate" | "conflict":
            fits = lesson in inputs.lessons and len(sources) == 1 and not replaces
        case _:
            assert_never(operation.kind)
    return fits


def _already_disposed(operation: Operation, accepted: Sequence[Operation]) -> Objection | None:
    taken = {each for one in accepted for each in one.inputs}
    twice = [each for each in operation.inputs if each in taken or operation.inputs.count(each) > 1]
    if not twice:
        return None
    return "twice", f"{len(twice)} of its lessons have a disposition already, such as {twice[0]}"


def _touches_owner(operation: Operation, inputs: Inputs) -> Objection | None:
    owned = [each for each in operation.replaces if inputs.lessons[each].origin == "owner"]
    return ("owner", f"{owned[0]} was written by the owner, who alone may change it") if owned else None


def _loses_too_much(operation: Operation, inputs: Inputs, accepted: Sequence[Operation]) -> Objection | None:
    if not operation.destructive:
        return None
    total = len(inputs.lessons)
    together = [*accepted, operation]
    lost = sum(len(each.replaces) for each in together)
    if lost > loss_cap(total):
        return "loss_cap", f"{lost} of {total} approved lessons would go, {loss_cap(total)} may in one dream"
    put_in_place = sum(1 for each in together if each.replaces and each.kind != "retire")
    return ("last", "no approved lesson would be left") if total - lost + put_in_place < 1 else None


def _loses_its_target(operation: Operation, accepted: Sequence[Operation]) -> Objection | None:
    """Say so where a draft is given up in favour of a lesson that does not stay."""
    gone = {each for one in accepted for each in one.replaces}
    leaned_on = {one.lesson for one in accepted if one.kind in ("duplicate", "conflict")}
    if operation.kind in ("duplicate", "conflict") and operation.lesson in gone:
        return "target", f"{operation.lesson} is itself replaced or retired"
    needed = leaned_on & set(operation.replaces)
    return ("target", f"a draft was given up in favour of {min(needed)}") if needed else None


def _too_weak(operation: Operation, inputs: Inputs) -> Objection | None:
    """Say so where the newer one, which wins a contradiction, has evidence less strong than the older."""
    if operation.kind != "supersede":
        return None
    draft = inputs.drafts[operation.lesson]
    for each in operation.replaces:
        old = inputs.lessons[each]
        if strength(draft)[0] > strength(old)[0] or len(draft.evidence) < len(old.evidence):
            mine, theirs = f"{draft.trust} x {len(draft.evidence)}", f"{old.trust} x {len(old.evidence)}"
            return "weaker", f"its evidence ({mine}) is not as strong as that of {each} ({theirs})"
    return None


def _left_over(inputs: Inputs, accepted: Sequence[Operation], refused: Sequence[Refused]) -> list[Operation]:
    taken = {each for one in accepted for each in one.inputs}
    gone = {each for one in accepted for each in one.replaces}
    drafts = [
        _fallback(each, inputs, [one for one in refused if each in one.operation.sources], gone)
        for each in inputs.drafts
        if each not in taken
    ]
    kept = [Operation("keep", each, (each,), (), "untouched") for each in inputs.lessons if each not in taken]
    return drafts + kept


def _fallback(
    draft: LessonId, inputs: Inputs, refused: Sequence[Refused], gone: Iterable[LessonId]
) -> Operation:
    for one in refused:
        rivals = [each for each in one.operation.replaces if each in inputs.lessons and each not in gone]
        if rivals:
            return Operation("conflict", rivals[0], (draft,), (), f"refused {one.operation.kind}: {one.why}")
    why = refused[0].why if refused else "not disposed of"
    return Operation("add", draft, (draft,), (), f"left over: {why}")
