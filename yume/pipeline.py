"""A dream at a glance: nine steps, each consuming one subject and feeding the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from yume.events import Event, RunBatch
from yume.resources import Resources, Zone
from yume.stages import (
    s1_pull,
    s2_extract,
    s3_classify,
    s4_draft,
    s5_merge,
    s6_gate,
    s7_compile,
    s8_write,
    s9_measure,
)

STREAM: Final = "dream"
FIRST: Final = "dream.requested"


class Run(Protocol):
    """What every step's module offers: load, think, save in one transaction that marks the step."""

    async def __call__(self, batch: RunBatch, resources: Resources, /) -> None:
        """Run the step; run again, it changes nothing."""
        ...


class Tell(Protocol):
    """Builds from rows what a finished step has to tell: asked again, the same events under the same ids."""

    async def __call__(self, batch: RunBatch, resources: Resources, /) -> Sequence[Event]:
        """Return the events for other services in order; the worker adds `emits` if it is not there."""
        ...


async def nothing(batch: RunBatch, resources: Resources, /) -> Sequence[Event]:
    """Tell other services nothing: most steps are Yume's own business."""
    del batch, resources
    return ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One step: what it consumes, what it emits, and the trust zone whose process runs it."""

    name: str
    zone: Zone
    consumes: str
    emits: str
    run: Run
    tell: Tell = nothing


STAGES: Final = (
    Stage("s1_pull", "ingest", "dream.requested", "dream.pulled", s1_pull.run),
    Stage("s2_extract", "ingest", "dream.pulled", "dream.extracted", s2_extract.run),
    Stage("s3_classify", "dream", "dream.extracted", "dream.classified", s3_classify.run),
    Stage("s4_draft", "dream", "dream.classified", "dream.drafted", s4_draft.run),
    Stage("s5_merge", "dream", "dream.drafted", "dream.merged", s5_merge.run),
    Stage("s6_gate", "gate", "dream.merged", "dream.gated", s6_gate.run, s6_gate.tell),
    Stage("s7_compile", "gate", "dream.gated", "dream.compiled", s7_compile.run),
    Stage("s8_write", "slot", "dream.compiled", "dream.written", s8_write.run, s8_write.tell),
    Stage("s9_measure", "measure", "dream.written", "dream.finished", s9_measure.run, s9_measure.tell),
)
