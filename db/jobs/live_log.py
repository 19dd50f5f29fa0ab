"""The last output of the running case of a run, for the dashboard and the terminal.

The folder of a running case names its run, so a dashboard on the same machine finds the log on the
disk. For other machines the runner writes it into the store with its heartbeat.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import get_list, get_text
from compile_hud.db.shared.text import masked, printable, shortened

# The state directory, for the process that serves the dashboard.
STATE_VARIABLE: Final = "HUD_STATE_DIR"
WORK_FOLDER: Final = "work"
LOG_NAME: Final = "log.txt"
CASE_NAME: Final = "case.txt"
# Some hundred lines: more than people read while they pass, and little for a store.
LIMIT_BYTES: Final = 8192
_MAX_LINE: Final = 500
# The id becomes part of a path, and comes from a URL.
_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
# Terminal escapes for colours and cursor movements.
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a log in printable form; `offset` counts the bytes before it."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLog:
    """The last lines of the log of the running case; the last one may be incomplete."""

    case_key: str
    lines: tuple[LogLine, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the log as a JSON object."""
        return {
            "case_key": self.case_key,
            "lines": [[line.offset, line.text] for line in self.lines],
        }

    @classmethod
    def from_json(cls, document: Any) -> LiveLog:
        """Return the log that `document` describes; raise RecordError for an invalid one."""
        lines = get_list(document, "lines")
        if not all(isinstance(item, list) and len(item) == 2 for item in lines):
            raise RecordError(
                "field 'lines' must hold pairs of an offset and a text",
                field="lines",
                expected="pairs of an offset and a text",
            )
        return cls(
            case_key=get_text(document, "case_key"),
            lines=tuple(LogLine(offset=int(offset), text=str(text)) for offset, text in lines),
        )


def work_name(run_id: str, *, pid: int, unique: str) -> str:
    """Return the name of the folder in which a process executes a case of a run."""
    return f"{pid}-{run_id}-{unique}" if _RUN_ID.fullmatch(run_id) else f"{pid}-{unique}"


def _run_of(name: str) -> str:
    """Return the run of a folder that `work_name` named."""
    return name.partition("-")[2].rpartition("-")[0]


def find_live_log(state_dir: Path, run_id: str) -> LiveLog | None:
    """Return the newest log of a running case of the run, None if none runs here."""
    if not _RUN_ID.fullmatch(run_id):
        return None
    try:
        # Compiled patterns are cached: one with the run in it would stay for each run.
        logs = (state_dir / WORK_FOLDER).glob(f"*/{LOG_NAME}")
        ours = [path for path in logs if _run_of(path.parent.name) == run_id]
        newest = max(ours, key=lambda path: path.stat().st_mtime_ns, default=None)
        if newest is None:
            return None
        case_key = newest.with_name(CASE_NAME).read_text(encoding="utf-8")
        return LiveLog(case_key=case_key, lines=tuple(_last_lines(newest)))
    except OSError:
        # The case ended at this very moment.
        return None


def _last_lines(path: Path) -> Iterator[LogLine]:
    with path.open("rb") as stream:
        offset = max(0, stream.seek(0, os.SEEK_END) - LIMIT_BYTES)
        stream.seek(offset)
        content = stream.read(LIMIT_BYTES)
    if offset:
        # The first line is cut, so its offset is unknown.
        cut = content.find(b"\n") + 1
        offset, content = offset + cut, content[cut:]
    for line in content.splitlines(keepends=True):
        yield LogLine(offset=offset, text=_shown(line))
        offset += len(line)


def _shown(line: bytes) -> str:
    text = _ESCAPES.sub("", line.decode("utf-8", "replace").rstrip())
    return shortened(masked(printable(text, allowed="\t")), limit=_MAX_LINE)
