"""The test cases of a JUnit XML document, taken out as it goes by: one of them is held."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

TEXT_CHARS: Final = 100_000  # kept of one element's text, and of one attribute
CASE_CHARS: Final = 1_000_000  # kept of all texts of a case
CASE_PARTS: Final = 1_000
PROPERTIES: Final = 1_000  # of a case or a suite
TAG_BYTES: Final = 4 << 20  # of a tag or a comment, which cannot be read in pieces
DEEPEST: Final = 100
CASE: Final = "testcase"
SUITE: Final = "testsuite"
_ROOTS: Final = ("testsuites", SUITE)
_ENCODING: Final = re.compile(
    rb"""\A(?:\xef\xbb\xbf)?<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.:-]{1,40})"""
)
_EXPATS_OWN: Final = frozenset({"utf-8", "utf-16", "ascii", "iso8859-1"})

Attributes = Mapping[str, str]


class RefusedError(ValueError):
    """A document that is not read further, and why."""


@dataclass(slots=True)
class Part:
    """An element inside a case: its tag, attributes and the start of its text, inner elements included."""

    tag: str
    attributes: Attributes
    text: list[str] = field(default_factory=list)
    kept: int = 0
    lost: int = 0

    def add(self, text: str, most: int) -> int:
        """Keep as much of a text as there is room for, `most` at most; return how much that is."""
        room = max(0, min(TEXT_CHARS - self.kept, most))
        if room:
            self.text.append(text[:room])
        self.kept += min(room, len(text))
        self.lost += max(0, len(text) - room)
        return min(room, len(text))

    @property
    def whole(self) -> str:
        """Return the text, with a note of what is not kept of it."""
        said = "".join(self.text).strip()
        return f"{said}\n({self.lost} more characters)" if self.lost else said


@dataclass(slots=True)
class Suite:
    """A suite that is open: its attributes, and the properties that stand before its cases."""

    attributes: Attributes
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Case:
    """A test case as it is read: where it starts, the suites around it from the outside in, what is in it."""

    line: int
    byte: int
    attributes: Attributes
    suites: tuple[Suite, ...]
    parts: list[Part] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    kept: int = 0
    parts_lost: int = 0


class Reader:
    """Takes the test cases out of a document that is fed to it, into `done`; nothing else of it is kept.

    A document that declares entities is refused: they can make a small file as large as they like.
    """

    def __init__(self) -> None:
        self.done: list[Case] = []
        self._parser = expat.ParserCreate()
        self._decoder: codecs.IncrementalDecoder | None = None
        self._fed = 0
        self._tags: list[str] = []
        self._suites: list[Suite] = []
        self._case: Case | None = None
        self._part: Part | None = None
        self._part_depth = 0

    @property
    def line(self) -> int:
        """The line that is being read, from 1."""
        return self._parser.CurrentLineNumber

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Read on; ExpatError where it is no XML, RefusedError where it is none that is read.

        LookupError where it declares an encoding that nobody knows.
        """
        if not self._fed:
            self._begin(data)
        plain = self._decoder.decode(data, last).encode() if self._decoder else data
        self._fed += len(plain)
        self._parser.Parse(plain, last)
        if self._fed - self._parser.CurrentByteIndex > TAG_BYTES:
            raise RefusedError(f"a tag or a comment is longer than {TAG_BYTES >> 20} MiB")

    def _begin(self, data: bytes) -> None:
        """Decode here what expat cannot: it knows few encodings, and no Chinese one."""
        declared = _ENCODING.match(data)
        name = declared[1].decode() if declared else "utf-8"
        b" ".decode(name, "replace")  # refuses what is no encoding of text, too
        if codecs.lookup(name).name not in _EXPATS_OWN:
            self._decoder = codecs.getincrementaldecoder(name)("replace")
            self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, tag: str, attributes: Attributes) -> None:
        if not self._tags and tag not in _ROOTS:
            raise RefusedError(f"a <{tag[:40]}> document is no JUnit report")
        if len(self._tags) == DEEPEST:
            raise RefusedError(f"elements stand {DEEPEST} deep in one another")
        self._tags.append(tag)
        if tag == "property" and self._part is None:
            self._add_property(attributes)
        elif self._case is not None:
            if self._part is None and tag != "properties":
                self._part, self._part_depth = Part(tag, _cut(attributes)), len(self._tags)
        elif tag == SUITE:
            self._suites.append(Suite(_cut(attributes)))
        elif tag == CASE:
            at = self._parser
            suites = tuple(self._suites)
            self._case = Case(at.CurrentLineNumber, at.CurrentByteIndex, _cut(attributes), suites)

    def _add_property(self, attributes: Attributes) -> None:
        holder = self._case or (self._suites[-1] if self._suites else None)
        if holder is not None and len(holder.properties) < PROPERTIES:
            stated = _cut(attributes)
            holder.properties[stated.get("name", "")] = stated.get("value", "")

    def _text(self, text: str) -> None:
        if self._part is not None and self._case is not None:
            self._case.kept += self._part.add(text, CASE_CHARS - self._case.kept)

    def _end(self, tag: str) -> None:
        depth = len(self._tags)
        self._tags.pop()
        if self._case is None:
            if tag == SUITE:
                self._suites.pop()
        elif self._part is not None:
            if depth == self._part_depth:
                self._take(self._case, self._part)
                self._part = None
        elif tag == CASE:
            self.done.append(self._case)
            self._case = None

    @staticmethod
    def _take(case: Case, part: Part) -> None:
        if len(case.parts) < CASE_PARTS:
            case.parts.append(part)
        else:
            case.parts_lost += 1

    def _doctype(self, *_: object) -> None:
        raise RefusedError("it declares a document type, which no test report needs")


def _cut(attributes: Attributes) -> Attributes:
    return {name: _short(text) for name, text in attributes.items()}


def _short(text: str) -> str:
    lost = len(text) - TEXT_CHARS
    return f"{text[:TEXT_CHARS]} ({lost} more characters)" if lost > 0 else text
