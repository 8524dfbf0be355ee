"""What acts stand on: rows of one series, and the resources of an operator's command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from tests.store.conftest import NOW, Rows
from yume.clients.folder import FolderArchive
from yume.clients.http import Limits
from yume.resources import Resources
from yume.store import batches


@dataclass(frozen=True, slots=True)
class AtOnce(Resources):
    """Resources whose clock stands."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def now():
    """The instant at which the rows were made."""
    return NOW


@pytest.fixture
def rows(db):
    """The maker of rows."""
    return Rows(db)


@pytest.fixture
async def series(rows):
    """One series of one platform: tobatsu/kamila."""
    return await rows.series()


@pytest.fixture
async def dream(rows, series):
    """The series' first dream, running."""
    return await rows.dream(series)


@pytest.fixture
async def signal(rows, series, dream):
    """A signal of the dream's only run."""
    return await rows.signal(dream, await rows.run(series, dream))


@pytest.fixture
def announce_run(db):
    """Have callbacks announce tasks of a dream that collects."""

    async def announced(series, dream, *tasks):
        facts = {"status": "failed", "finished_at": NOW, "now": NOW}
        for task in tasks:
            await batches.announce_run(db, series.id, dream, task_id=task, **facts)

    return announced


@pytest.fixture
def resources(database, tmp_path):
    """An operator's, on the test's database, at the instant at which the rows were made."""
    archive = FolderArchive(tmp_path / "archive")
    return AtOnce("cli", database, Limits(), allow_http=True, held_archive=archive)


@pytest.fixture
def at(resources):
    """The same resources at another instant."""

    def moved(instant):
        return replace(resources, at=instant)

    return moved
