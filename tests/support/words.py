"""Replace in texts of snapshots what differs from machine to machine."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup
from syrupy.types import PropertyMatcher, PropertyPath, SerializableData

ROOT = Path(__file__).parents[2]
# Short names of commits have 10 digits, ids of runs 12, digests of paths 16, ids of files 32.
# Builds of torch for a bisection have 6 behind their version.
_RANDOM = re.compile(
    r"\b(?:[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{32}|(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{10})\b"
    # One short name in a hundred has no letter. In a column it is a name, in a sentence a number.
    r"|(?<=  )[0-9]{10}(?=  )"
    r"|(?<=-)[0-9a-f]{6}(?=@|\.log\b)"
    # The id of an alert in a command.
    r"|(?<=hud alerts show )[0-9a-f]{8}\b|(?<=hud alerts ack )[0-9a-f]{8}\b"
)
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
# Also versions, such as 2.13.0+cpu.
_DECIMAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)+(?:e[+-]\d+)?(?:\+\w+)?")
_LINE = re.compile(r"(?<=\.py:)\d+")


def replacing(folder: Path) -> PropertyMatcher:
    """Return a matcher that replaces paths, the PID of this process and random ids in texts."""
    replaced = (
        (str(folder), "FOLDER"),
        (sys.executable, "PYTHON"),
        (str(ROOT), "ROOT"),
        (f"PID {os.getpid()}", "PID OWN"),
        (f"Compile HUD {version('compile-hud')}", "Compile HUD VERSION"),
    )

    def replace(*, data: SerializableData, path: PropertyPath) -> SerializableData:
        del path
        if isinstance(data, Markup):
            # In a snapshot HTML is text.
            data = str(data)
        if type(data) is not str:
            return data
        for old, new in replaced:
            data = data.replace(old, new)
        return _PORT.sub("PORT", _RANDOM.sub("ID", data))

    return replace


def replacing_numbers(folder: Path) -> PropertyMatcher:
    """Return a matcher that also replaces decimal numbers, versions and lines of files.

    For surfaces that quote statistics, or what one machine and one torch gave.
    """
    replace = replacing(folder)

    def replace_numbers(*, data: SerializableData, path: PropertyPath) -> SerializableData:
        text = replace(data=data, path=path)
        return _LINE.sub("N", _DECIMAL.sub("N", text)) if isinstance(text, str) else text

    return replace_numbers


def short_id(value: object) -> str:
    """Return the id of a parameter that is a document: its beginning, or its kind for bytes."""
    return "bytes" if isinstance(value, bytes) else repr(value)[:40]
