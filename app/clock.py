"""The one clock of the dashboard, which tests replace."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(timezone.utc)
