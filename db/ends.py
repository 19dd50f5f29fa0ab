"""The two ends of an alert: between which runs came about what it tells of."""

from __future__ import annotations

from typing import Final

from db.records import Alert
from db.sighting import Sighting

# The kind of an alert whose level moved slowly. It began with its `last_good` run and was first
# seen with its `first_bad` one; between them are nights of either kind.
DRIFT: Final = "drift"


def began(alert: Alert) -> Sighting:
    """Return the run from which on it is so: the first bad one, of a drift the last good one."""
    return alert.last_good if alert.kind == DRIFT and alert.last_good else alert.first_bad


def end_words(kind: str) -> tuple[str, str]:
    """Return what the last good and the first bad run of an alert of `kind` are called."""
    return ("began", "first seen") if kind == DRIFT else ("last good", "first bad")
