"""How the platform says no: an RFC 9457 problem document that names the thing and the way out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


class ProblemError(Exception):
    """A call that is refused with that status; `members` are added to the document."""

    def __init__(self, status: int, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.members = members


def answer_problem(_request: Request, error: Exception) -> Response:
    """Answer a refusal."""
    assert isinstance(error, ProblemError)
    headers = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else None
    return _document(error.status, error.detail, headers=headers, **error.members)


def answer_http_error(_request: Request, error: Exception) -> Response:
    """Answer what the router refuses: an unknown path or method."""
    assert isinstance(error, HTTPException)
    return _document(error.status_code, error.detail, headers=dict(error.headers or {}))


def _document(status: int, detail: str, *, headers: dict[str, str] | None, **members: Any) -> Response:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body | members, status, headers, media_type="application/problem+json")
