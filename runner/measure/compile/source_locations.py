"""Why Dynamo broke a graph or compiled again, and at which line of the model. No torch in here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from traceback import FrameSummary
from typing import Any

MAX_PLACES = 20
MAX_REASON_CHARS = 600
MAX_FAILURE_CHARS = 500
# How Dynamo begins to quote the lines of the model in an error.
USER_CODE = "\nfrom user code:\n"
# As in `0/3: self.n == 3   # self.n += 1  # folder/model.py:11 in forward (HINT: ...)`.
_GUARD = re.compile(r"^\d+/\d+: *(?P<guard>.*?) *(?:# |$)", re.MULTILINE)
_GUARD_PLACE = re.compile(r"# (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """Something Dynamo did for a reason, and the line of the model it did it at, where known."""

    reason: str
    file: str | None = None
    line: int | None = None
    function: str | None = None


def place_of_break(
    reason: str, *, frames: Iterable[Any] = (), not_below: str = "/nowhere"
) -> CodePlace:
    """Return the innermost of `frames` (traceback.FrameSummary) that is not below a folder."""
    stack = list(frames)
    own = [frame for frame in stack if not frame.filename.startswith(not_below)]
    if not stack:
        return CodePlace(reason=shorten(reason))
    frame = (own or stack)[-1]
    return CodePlace(
        reason=shorten(reason),
        file=os.path.realpath(frame.filename),
        line=frame.lineno,
        function=frame.name,
    )


def place_of_recompile(text: str, *, frame: CodePlace) -> CodePlace:
    """Return the guard that failed and the line that made it, by what Dynamo says of a recompile.

    `frame` is the function that was compiled again, for where the text names no line.
    """
    guard = _GUARD.match(text)
    reason = shorten(guard["guard"] if guard is not None else text)
    # The place beside the guard names the last two parts of a path only.
    found = [*_GUARD_PLACE.finditer(text)][:1] + [*_FRAME.finditer(text)][-1:]
    if not found:
        file = None if frame.file is None else os.path.realpath(frame.file)
        return CodePlace(reason=reason, file=file, line=frame.line, function=frame.function)
    file = found[-1]["file"]
    return CodePlace(
        reason=reason,
        file=os.path.realpath(file) if os.path.isabs(file) else file,
        line=int(found[-1]["line"]),
        function=found[-1]["function"],
    )


def failure_reason(error: BaseException, *, place: str = "") -> str:
    """Return on one line what `error` and its cause say, with the line of the model if they do.

    `place` is that line where the caller knows it: `net.py:11 in step`.
    """
    said = [f"{type(error).__name__}: {_one_line(str(error))}"]
    cause = "" if error.__cause__ is None else _one_line(str(error.__cause__))
    if cause and cause not in said[0]:
        said.append(cause)
    place = place or short_place(quoted_frames(error))
    end = f" (at {place})" if place else ""
    return "; ".join(said)[: MAX_FAILURE_CHARS - len(end)] + end


def quoted_frames(error: BaseException) -> list[FrameSummary]:
    """Return the lines of the model that Dynamo quotes in `error`, the innermost last."""
    # It does so last, behind more advice than fits on a line.
    quoted = str(error).partition(USER_CODE)[2]
    return [
        FrameSummary(found["file"], int(found["line"]), found["function"], lookup_line=False)
        for found in _FRAME.finditer(quoted)
    ]


def short_place(frames: Sequence[FrameSummary]) -> str:
    """Return the innermost of `frames`: `net.py:11 in step`; empty where there is none."""
    if not frames:
        return ""
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"


def shorten(reason: str) -> str:
    """Return `reason` cut to what is kept of one."""
    return reason[:MAX_REASON_CHARS]


def _one_line(text: str) -> str:
    return " ".join(text.split())
