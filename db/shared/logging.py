"""Log records as JSON, one object a line, for runner and dashboard alike."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Final, TextIO

from compile_hud.db.shared.text import printable

FORMAT_VARIABLE: Final = "HUD_LOG_FORMAT"
FORMATS: Final = ("text", "json")
_TEXT_FORMAT: Final = "%(levelname)s %(name)s: %(message)s"
# The fields that a record may have besides its text, as `extra` of the call.
FIELDS: Final = ("run_id", "case", "outcome", "job")


class JsonFormatter(logging.Formatter):
    """Writes time (UTC), level, logger, text and the known ones of FIELDS."""

    def format(self, record: logging.LogRecord) -> str:
        """Return `record` as one line of JSON."""
        document: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        document |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


class _TextFormatter(logging.Formatter):
    """Writes level, logger and text, without what a terminal would execute."""

    def format(self, record: logging.LogRecord) -> str:
        """Return `record` as text."""
        return printable(super().format(record), allowed="\n\t")


def is_journal(env: Mapping[str, str]) -> bool:
    """Return whether systemd's journal keeps standard output or error of this process."""
    stream = env.get("JOURNAL_STREAM", "")
    for descriptor in (1, 2):
        with suppress(OSError):
            status = os.fstat(descriptor)
            if stream == f"{status.st_dev}:{status.st_ino}":
                return True
    return False


def set_up_logging(kind: str, *, stream: TextIO) -> None:
    """Write log records to `stream`: as text from warnings on, as JSON from information on.

    The command line prints information itself, so the text leaves it out.
    """
    is_json = kind == "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if is_json else _TextFormatter(_TEXT_FORMAT))
    root = logging.getLogger()
    for old in [item for item in root.handlers if getattr(item, "is_ours", False)]:
        root.removeHandler(old)
    handler.is_ours = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("hud").setLevel(logging.INFO if is_json else logging.WARNING)
