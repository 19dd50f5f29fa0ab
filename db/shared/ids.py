"""Ids that sort by time: DuckDB skips blocks of rows by the range of their ids."""

from __future__ import annotations

import uuid
from datetime import datetime


def timed_id(at: datetime) -> str:
    """Return a new id of 32 hexadecimal digits, of which the first 12 are `at` in milliseconds."""
    return f"{int(at.timestamp() * 1000):012x}{uuid.uuid4().hex[:20]}"
