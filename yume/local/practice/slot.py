"""The lesson slot of each series: versions that only grow, compare-and-swap, and answers kept by key."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from yume.local.practice.problems import ProblemError

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS slot_versions (
    series_id TEXT, version INTEGER, body TEXT, PRIMARY KEY (series_id, version)
);
CREATE TABLE IF NOT EXISTS slot_answers (
    series_id TEXT, key TEXT, body_sha256 TEXT, answer TEXT, PRIMARY KEY (series_id, key)
);
"""


def sha256(text: str) -> str:
    """Return the hash of a slot's text: lower-case hex over its UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a slot; version 0 is the slot that was never written."""

    version: int = 0
    text: str = ""
    sha256: str = sha256("")
    lesson_set_id: Any = None
    lesson_set_version: Any = None
    restored_from: int | None = None
    assignment: Mapping[str, Any] | None = None
    created_at: str | None = None


class Slot:
    """All slots of the platform, kept in its database; a write is stored with its answer or not at all."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.executescript(_SCHEMA)

    def current(self, series: str) -> Version:
        """Return the version in force."""
        row = self._db.execute(
            "SELECT body FROM slot_versions WHERE series_id = ? ORDER BY version DESC LIMIT 1", (series,)
        ).fetchone()
        return Version(**json.loads(row[0])) if row else Version()

    def injected(self, series: str, task_id: str) -> Version:
        """Return the version that a task gets: the one in force, or the one before for a share held back."""
        current = self.current(series)
        if current.assignment and _held_back(current.assignment, task_id):
            return self._version(series, current.version - 1) or Version()
        return current

    def write(self, series: str, key: str | None, body: Mapping[str, Any], *, now: str) -> dict[str, Any]:
        """Make a new version and return the answer of the call; with a known key, the answer given then.

        Raises ProblemError with status 422 (the body) or 409 (`expected_version`), and keeps neither.
        """
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            kept = self._kept(series, key, body)
            if kept is not None:
                return kept
            new = self._next(series, body, keyed=key is not None)
            new = replace(new, version=self.current(series).version + 1, created_at=now)
            self._db.execute(
                "INSERT INTO slot_versions VALUES (?, ?, ?)", (series, new.version, json.dumps(asdict(new)))
            )
            answer = _answer(series, new)
            if key is not None:
                self._db.execute(
                    "INSERT INTO slot_answers VALUES (?, ?, ?, ?)",
                    (series, key, _body_sha256(body), json.dumps(answer)),
                )
            return answer

    def _version(self, series: str, version: int) -> Version | None:
        row = self._db.execute(
            "SELECT body FROM slot_versions WHERE series_id = ? AND version = ?", (series, version)
        ).fetchone()
        if row:
            return Version(**json.loads(row[0]))
        return Version() if version == 0 else None

    def _kept(self, series: str, key: str | None, body: Mapping[str, Any]) -> dict[str, Any] | None:
        row = self._db.execute(
            "SELECT body_sha256, answer FROM slot_answers WHERE series_id = ? AND key = ?", (series, key)
        ).fetchone()
        if row is None:
            return None
        if row[0] != _body_sha256(body):
            raise ProblemError(422, f"Idempotency-Key {key!r} was used with another body; take a new key")
        answer: dict[str, Any] = json.loads(row[1])
        return answer

    def _next(self, series: str, body: Mapping[str, Any], *, keyed: bool) -> Version:
        _check_assignment(body.get("assignment"))
        restoring = body.get("restore_version") is not None
        new = self._restored(series, body, keyed=keyed) if restoring else _written(body)
        _check_expected(body.get("expected_version"), self.current(series))
        return new

    def _restored(self, series: str, body: Mapping[str, Any], *, keyed: bool) -> Version:
        number = body["restore_version"]
        if body.get("text") is not None:
            raise ProblemError(422, "text and restore_version exclude each other; send one of them")
        if body.get("expected_version") is None or not keyed:
            raise ProblemError(422, "restore_version needs expected_version and an Idempotency-Key")
        old = self._version(series, number) if _is_whole(number) else None
        if old is None:
            raise ProblemError(422, f"restore_version {number!r}: series {series!r} has no such version")
        return Version(
            text=old.text,
            sha256=old.sha256,
            lesson_set_id=body.get("lesson_set_id", old.lesson_set_id),
            lesson_set_version=body.get("lesson_set_version", old.lesson_set_version),
            restored_from=old.version,
            assignment=body.get("assignment"),
        )


def _written(body: Mapping[str, Any]) -> Version:
    text = body.get("text")
    if not isinstance(text, str):
        raise ProblemError(422, f"text is {type(text).__name__}; send a string, or restore_version")
    try:
        digest = sha256(text)
    except UnicodeEncodeError as error:
        raise ProblemError(
            422, f"text has no UTF-8 form: lone surrogate at character {error.start}"
        ) from error
    if body.get("sha256") not in (None, digest):
        raise ProblemError(422, f"sha256 is {body['sha256']!r}, but that of the text received is {digest}")
    return Version(
        text=text,
        sha256=digest,
        lesson_set_id=body.get("lesson_set_id"),
        lesson_set_version=body.get("lesson_set_version"),
        assignment=body.get("assignment"),
    )


def _check_expected(expected: Any, current: Version) -> None:
    if expected is None:
        return
    if not _is_whole(expected):
        raise ProblemError(422, f"expected_version is {expected!r}; send the whole number that GET answered")
    if expected != current.version:
        raise ProblemError(
            409,
            f"expected_version is {expected}, the current version is {current.version}",
            current_version=current.version,
            sha256=current.sha256,
        )


def _check_assignment(assignment: Any) -> None:
    match assignment:
        case None:
            return
        case {"share": int() | float() as share, "salt": str()} if 0 <= share <= 1 and share is not True:
            return
    raise ProblemError(422, f"assignment is {assignment!r}; send a share from 0 to 1 and a salt")


def _held_back(assignment: Mapping[str, Any], task_id: str) -> bool:
    digest = hashlib.sha256(f"{assignment['salt']}:{task_id}".encode()).hexdigest()
    return bool(int(digest[:8], 16) / 2**32 < assignment["share"])


def _answer(series: str, new: Version) -> dict[str, Any]:
    told = {"series_id": series, **asdict(new)}
    del told["text"]
    return {name: value for name, value in told.items() if value is not None}


def _body_sha256(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
