"""Pages of a listing: what a query asks for, and cursors that name the place where the next page begins."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from yume.local.practice.book import Key, Row
from yume.local.practice.problems import ProblemError
from yume.local.practice.transcript import timestamp

_PAGE: Final = 100
_LARGEST_PAGE: Final = 500
_MOST_TASK_IDS: Final = 50
_PLACE_ONLY: Final = {"cursor", "limit"}


def answer_page(request: Request, rows_after: Callable[[Key, int], list[Row]]) -> Response:
    """Answer one page. The cursor is the last item's sort key, so items that come later move none of it."""
    limit = _limit(request.query_params)
    listing = _listing(request)
    rows = rows_after(_place(request.query_params.get("cursor"), listing), limit + 1)
    more = len(rows) > limit
    rows = rows[:limit]
    return JSONResponse(
        {"items": [item for _, item in rows], "next_cursor": _cursor(listing, rows[-1][0]) if more else None}
    )


def task_ids(query: QueryParams) -> list[str]:
    """Return the tasks that are named; more than 50 are refused."""
    named = query.getlist("task_id")
    if len(named) > _MOST_TASK_IDS:
        raise ProblemError(400, f"{len(named)} task_id in one call; send at most {_MOST_TASK_IDS}")
    return named


def required_task_ids(query: QueryParams) -> list[str]:
    """Return the tasks that are named; none is refused too."""
    named = task_ids(query)
    if not named:
        raise ProblemError(400, f"task_id is missing; send 1 to {_MOST_TASK_IDS} of them")
    return named


def flag(query: QueryParams, name: str) -> bool | None:
    """Return a true or false of the query, None where it is not given."""
    words = {None: None, "true": True, "false": False}
    word = query.get(name)
    if word not in words:
        raise ProblemError(400, f"{name} is {word!r}; send true or false")
    return words[word]


def moment(query: QueryParams, name: str) -> str | None:
    """Return a time of the query as the platform writes times, None where it is not given."""
    given = query.get(name)
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
    except ValueError as error:
        raise ProblemError(400, f"{name} is {given!r}; send a time as in RFC 3339") from error
    if at.tzinfo is None:
        raise ProblemError(400, f"{name} is {given!r}, a time without zone; add Z or an offset")
    return timestamp(at)


def _limit(query: QueryParams) -> int:
    given = query.get("limit", str(_PAGE))
    if not (given.isascii() and given.isdigit() and int(given) > 0):
        raise ProblemError(400, f"limit is {given!r}; send a whole number from 1 to {_LARGEST_PAGE}")
    return min(int(given), _LARGEST_PAGE)


def _listing(request: Request) -> str:
    asked = [
        request.url.path,
        *sorted(p for p in request.query_params.multi_items() if p[0] not in _PLACE_ONLY),
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _cursor(listing: str, key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps([listing, *key]).encode()).decode().rstrip("=")


def _place(cursor: str | None, listing: str) -> Key:
    if not cursor:
        return ()
    try:
        made_for, *key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError) as error:
        raise ProblemError(400, f"cursor {cursor!r} is none of this platform's") from error
    if made_for != listing or _cursor(listing, tuple(key)) != cursor:
        raise ProblemError(400, f"cursor {cursor!r} belongs to another listing; start again without it")
    return tuple(key)
