"""Reasons of graph breaks and recompiles, with the line of the model. No torch in here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from traceback import FrameSummary
from typing import Any

MAX_LOCATIONS = 20
MAX_REASON_CHARS = 600
MAX_FAILURE_CHARS = 500
# Dynamo starts a quote of the model's lines in an error with this text.
USER_CODE = "\nfrom user code:\n"
GUARD_HINT = "hold the value that changes in a tensor, or mark it dynamic"
# An example is `0/3: self.n == 3   # self.n += 1  # folder/model.py:11 in forward (HINT: ...)`.
_GUARD = re.compile(r"^\d+/\d+: *(?P<guard>.*?) *(?:# |$)", re.MULTILINE)
_GUARD_LOCATION = re.compile(r"# (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")
# Dynamo indents its explanations and hints below each reason of a graph break.
_HEAD = re.compile(r"^(?![\s*]|$|User stack|For more)")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLocation:
    """An action of Dynamo with its reason, and the line of the model if known."""

    reason: str
    file: str | None = None
    line: int | None = None
    function: str | None = None

    @property
    def end(self) -> str:
        """Return the end of a sentence about it: ` at net.py:11`; empty where no line is known."""
        if self.file is None or self.line is None:
            return ""
        return f" at {os.path.basename(self.file)}:{self.line}"


def location_of_break(
    reason: str, *, frames: Iterable[Any] = (), not_below: str = "/nowhere"
) -> CodeLocation:
    """Return the innermost of `frames` (traceback.FrameSummary) outside of `folder`."""
    stack = list(frames)
    own = [frame for frame in stack if not frame.filename.startswith(not_below)]
    if not stack:
        return CodeLocation(reason=shorten(reason))
    frame = (own or stack)[-1]
    return CodeLocation(
        reason=shorten(reason),
        file=os.path.realpath(frame.filename),
        line=frame.lineno,
        function=frame.name,
    )


def location_of_recompile(text: str, *, frame: CodeLocation) -> CodeLocation:
    """Return the failed guard and the line that made it, from Dynamo's text about a recompile.

    `frame` is the recompiled function, used if the text names no line.
    """
    guard = _GUARD.match(text)
    reason = shorten(guard["guard"] if guard is not None else text)
    # The location in the guard has only the last two parts of a path.
    matches = [*_GUARD_LOCATION.finditer(text)][:1] + [*_FRAME.finditer(text)][-1:]
    if not matches:
        file = None if frame.file is None else os.path.realpath(frame.file)
        return CodeLocation(reason=reason, file=file, line=frame.line, function=frame.function)
    file = matches[-1]["file"]
    return CodeLocation(
        reason=reason,
        file=os.path.realpath(file) if os.path.isabs(file) else file,
        line=int(matches[-1]["line"]),
        function=matches[-1]["function"],
    )


def location_of_skip(
    text: str, *, file: str | None, line: int | None, function: str | None
) -> CodeLocation:
    """Return the reasons for which Dynamo skipped a function, without its explanations."""
    heads = [head for head in text.splitlines() if _HEAD.match(head)]
    return CodeLocation(
        reason=shorten("; ".join(heads) or _one_line(text)),
        file=None if file is None else os.path.realpath(file),
        line=line,
        function=function,
    )


def limit_reason(error: str, last: CodeLocation, *, num_recompiles: int, limit: int | None) -> str:
    """Return the reason of a failure at Dynamo's recompile limit: guard, line, remedy."""
    bound = "" if limit is None else f" of {limit}"
    times = "recompile" if num_recompiles == 1 else "recompiles"
    end = f" ({last.end.strip()} in {last.function})" if last.end else ""
    guard = last.reason[: MAX_FAILURE_CHARS // 3]
    return (
        f"{error}: recompile limit{bound} reached after {num_recompiles} {times}: the guard"
        f" `{guard}` failed; {GUARD_HINT}; TORCH_LOGS=recompiles shows each; without fullgraph"
        f" such calls run eagerly{end}"
    )


def failure_reason(error: BaseException, *, location: str = "") -> str:
    """Return the messages of `error` and its cause on one line, with the line of the model.

    `location` is that line if the caller knows it: `net.py:11 in step`.
    """
    parts = [f"{type(error).__name__}: {_one_line(str(error))}"]
    cause = "" if error.__cause__ is None else _one_line(str(error.__cause__))
    if cause and cause not in parts[0]:
        parts.append(cause)
    location = location or short_location(quoted_frames(error))
    end = f" (at {location})" if location else ""
    return "; ".join(parts)[: MAX_FAILURE_CHARS - len(end)] + end


def quoted_frames(error: BaseException) -> list[FrameSummary]:
    """Return the lines of the model that Dynamo quotes in `error`, the innermost last."""
    # Dynamo quotes it last, after more advice than fits on a line.
    return frames_in(str(error).partition(USER_CODE)[2])


def frames_in(text: str) -> list[FrameSummary]:
    """Return the frames of the traceback in `text`, the innermost last."""
    return [
        FrameSummary(match["file"], int(match["line"]), match["function"], lookup_line=False)
        for match in _FRAME.finditer(text)
    ]


def short_location(frames: Sequence[FrameSummary]) -> str:
    """Return the innermost of `frames`: `net.py:11 in step`; empty where there is none."""
    if not frames:
        return ""
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"


def shorten(reason: str) -> str:
    """Return `reason` cut to MAX_REASON_CHARS."""
    return reason[:MAX_REASON_CHARS]


def _one_line(text: str) -> str:
    return " ".join(text.split())
