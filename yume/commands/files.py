"""Commands on files of run records: no platform and no server is needed."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from yume import over_files
from yume.commands.destination import Write, refuse_source, written
from yume.commands.printing import DONE, as_json, escaped
from yume.domain import taxonomy
from yume.domain.files_report import as_markdown
from yume.domain.reading import write_document
from yume.domain.runs import Record
from yume.errors import PermanentError
from yume.importers.formats import FORMATS, Format, checked, named
from yume.importers.records import Imported, Unread
from yume.resources import model, now
from yume.settings import Settings

TOLD_EVERY_S: Final = 2.0
UNREAD_TOLD: Final = 1_000


async def dream(arguments: argparse.Namespace, found: Settings) -> int:
    """Review the runs that lie in files, and report."""
    del found
    reading = Reading(named(arguments.format), arguments.runs)
    if arguments.output is not None:
        refuse_source(arguments.output, reading.root)
    series = arguments.name or arguments.runs.resolve().stem
    with _ended_by_signals():
        evidence = over_files.gather(reading.pieces(series), now=now())
    reading.check()
    made = await over_files.review(
        evidence, taxonomy.shipped(), model(), series=series, language=arguments.language
    )
    facts = over_files.facts(made, source=reading.root.resolve().name, format_=reading.format.name)
    report = "".join(f"{escaped(line)}\n" for line in as_markdown(facts).splitlines())
    if arguments.output is not None:
        with written(arguments.output) as write:
            write(report.encode())
    if arguments.json:
        print(as_json(facts))
    else:
        said = f"{reading.runs} runs; the report is in {arguments.output}\n"
        print(said if arguments.output else report, end="")
    return DONE


async def import_(arguments: argparse.Namespace, found: Settings) -> int:
    """Turn files of another tool into records of the platform contract, one a line."""
    del found
    reading = Reading(named(arguments.format), arguments.path)
    series = arguments.name or arguments.path.resolve().stem
    with _ended_by_signals(), _destination(arguments) as write:
        for piece in reading.pieces(series):
            if not isinstance(piece, Unread):
                write(write_document(piece[0].record) + b"\n")
        reading.check()
    if arguments.json:
        print(as_json(reading.told()))
    else:
        line = f"{reading.runs} runs read as {reading.format.name}, {reading.unread} pieces could not be read"
        print(line, file=sys.stdout if arguments.output else sys.stderr)
    return DONE


async def formats(arguments: argparse.Namespace, found: Settings) -> int:
    """List what can be read."""
    del found
    listed = [{"format": each.name, "also": list(each.names[1:]), "about": each.about} for each in FORMATS]
    width = max(len(each.name) for each in FORMATS)
    lines = [f"{each.name:{width}}  {each.about}" for each in FORMATS]
    print(as_json(listed) if arguments.json else "\n".join(lines))
    return DONE


@dataclass(slots=True)
class Reading:
    """A file or folder being read: counts what comes, says how far it is and what could not be read."""

    format: Format
    root: Path
    runs: int = 0
    unread: int = 0
    first: list[Unread] = field(default_factory=list)

    def pieces(self, series: str) -> Iterator[tuple[Imported, Record] | Unread]:
        """Yield the pieces and tell of them on standard error."""
        due = time.monotonic() + TOLD_EVERY_S
        for piece in checked(self.format, self.root, series=series):
            if isinstance(piece, Unread):
                self._note(piece)
            else:
                self.runs += 1
            if time.monotonic() > due:
                _say(f"{self.runs:,} runs read, at {escaped(_place(piece))}")
                due = time.monotonic() + TOLD_EVERY_S
            yield piece
        if self.unread > UNREAD_TOLD:
            _say(f"{self.unread - UNREAD_TOLD:,} more pieces could not be read")

    def check(self) -> None:
        """Refuse a source in which there is no run at all."""
        if self.runs:
            return
        name = self.format.name
        if not self.unread:
            raise PermanentError(f"{self.root}: no run in it; is it empty, and is it {name}?")
        raise PermanentError(
            f"{self.root}: none of {self.unread} pieces is a run as {name} writes it; the first, "
            f"{self.first[0].place}: {self.first[0].why}; see `yume formats` for others"
        )

    def told(self) -> dict[str, Any]:
        """Return what was read, for programs."""
        first = [{"place": each.place, "why": each.why} for each in self.first]
        return {"format": self.format.name, "runs": self.runs, "unread": self.unread, "first_unread": first}

    def _note(self, piece: Unread) -> None:
        self.unread += 1
        if self.unread <= UNREAD_TOLD:
            self.first.append(piece)
            _say(f"left out: {escaped(piece.place)}: {escaped(piece.why)}")


def _place(piece: tuple[Imported, Record] | Unread) -> str:
    """Say where a piece stands."""
    return piece.place if isinstance(piece, Unread) else piece[0].place


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _destination(arguments: argparse.Namespace) -> Generator[Write]:
    """Give where the records go: the file named, standard output, or nowhere for the counts alone."""
    if arguments.output is not None:
        refuse_source(arguments.output, arguments.path)
        with written(arguments.output) as write:
            yield write
    elif arguments.json:
        yield len
    else:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let Ctrl-C and a plain `kill` end what reads without a pause, and let it tidy up.

    The event loop would hear of them only afterwards.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    killed = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, killed)


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
