"""The two ends of an alert: between which runs came about what it tells of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compile_hud.db.records.results import Alert
from compile_hud.db.records.run_ref import Sighting

# The kind of an alert whose level moved slowly. It began with its `last_good` run and was first
# seen with its `first_bad` one; between them are nights of either kind.
DRIFT: Final = "drift"
# That of an alert about a case that is no longer there, or a metric that its results lack by now.
VANISHED: Final = "vanished"
_NUMBER_KINDS: Final = ("step", "variance")


def began(alert: Alert) -> Sighting:
    """Return the run from which on it is so: the first bad one, of a drift the last good one."""
    return alert.last_good if alert.kind == DRIFT and alert.last_good else alert.first_bad


def leading(alerts: Sequence[Alert]) -> Sequence[Alert]:
    """Return those of an event's alerts by which it is told what happened, and since when.

    Of one model they are its drifts, which are more than the steps that were found in them; else
    all but the drifts.
    """
    drifts = [alert for alert in alerts if alert.kind == DRIFT]
    others = [alert for alert in alerts if alert.kind != DRIFT]
    is_told_by_drifts = len({alert.case.model for alert in alerts}) == 1 and all(
        alert.kind in _NUMBER_KINDS for alert in others
    )
    return (drifts or others) if is_told_by_drifts else (others or drifts)


def end_words(kind: str) -> tuple[str, str]:
    """Return what the last good and the first bad run of an alert of `kind` are called."""
    return ("began", "first seen") if kind == DRIFT else ("last good", "first bad")


def ends_of(alert: Alert) -> tuple[tuple[str, Sighting | None], tuple[str, Sighting | None]]:
    """Return both ends of an alert by what they are called, that first from which on it is so."""
    good_name, bad_name = end_words(alert.kind)
    good, bad = (good_name, alert.last_good), (bad_name, alert.first_bad)
    return (good, bad) if alert.kind == DRIFT else (bad, good)
