"""What tests of importers share: the real run data where it lies, and outcomes as Yume judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from yume.domain.runs import Capabilities, judge
from yume.importers.formats import checked, named
from yume.importers.records import Unread

SHARED = Path(__file__).parents[3] / "shared" / "data"
NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real run data beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the real run data (../shared/data) is not on this machine")
    return SHARED


@pytest.fixture(scope="session")
def outcomes() -> Callable[[str, Path], Counter[str]]:
    """Read a source in a format and count how its runs ended; what could not be read counts as `unread`."""

    def count(name: str, root: Path) -> Counter[str]:
        counted: Counter[str] = Counter()
        for piece in checked(named(name), root, series="s"):
            if isinstance(piece, Unread):
                counted["unread"] += 1
            else:
                counted[judge(piece[1], Capabilities(), now=NOW).outcome] += 1
        return counted

    return count
