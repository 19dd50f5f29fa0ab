"""Errors of the API as JSON, in the form of RFC 9457."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

PROBLEM_TYPE = "application/problem+json"
# A writer holds the store for tens of milliseconds.
RETRY_S = 5


class Problem(Exception):
    """A request that gets an error: its status, the error, and the next step."""

    def __init__(self, status: HTTPStatus, detail: str, *, hint: str = "", **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> Response:
        """Return the response with this error."""
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": int(self.status),
            "detail": self.detail,
        }
        if self.hint:
            document["hint"] = self.hint
        headers = {"Cache-Control": "no-store", **self.headers}
        return JSONResponse(
            document, status_code=self.status, headers=headers, media_type=PROBLEM_TYPE
        )


PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "An error, as in RFC 9457. `hint` is the next step.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
