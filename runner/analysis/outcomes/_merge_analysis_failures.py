"""A failure that lasts, and fails in another way by now.

It stays one alert, since the case is broken all the while. But who acknowledged the one error has
not heard of the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from compile_hud.db.records.results import Alert, Outcome
from compile_hud.db.records.summaries import LastEnding
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import one_line
from compile_hud.runner.analysis.outcomes.outcomes import OUTCOME

# A compiler's message may be pages long; the first lines say what it is.
MAX_REASON_LENGTH = 500
# Folders, addresses, hashes, sizes and counters differ from night to night.
_FOLDERS = re.compile(r"(?:~|\.{1,2})?(?:/[^\s/:;,'\"()<>]+)*/")
_VARYING = re.compile(
    r"0x[0-9a-f]+|\b(?=\w*\d)(?:[0-9a-f]{6,}|\w{16,})\b|\d+(?:\.\d+)?", re.IGNORECASE
)
# What follows is a traceback or a dump; which error it is stands before.
_COMPARED_LENGTH = 200


def told_reason(reason: str) -> str:
    """Return as much of a result's reason as alerts tell."""
    return reason[:MAX_REASON_LENGTH].strip()


def fails_otherwise(alert: Alert, *, load_last: Callable[[Alert], LastEnding | None]) -> str:
    """Return how the case of a lasting failure ended last, where that is not what was told.

    Empty for all other alerts, whose last ending is not loaded, and where only numbers, folders and
    hashes differ.
    """
    if alert.kind != OUTCOME or alert.state not in ONGOING:
        return ""
    last = load_last(alert)
    if last is None or last.outcome is Outcome.OK:
        return ""
    reason = told_reason(last.reason)
    told = f"{last.outcome}: {reason}" if reason else str(last.outcome)
    first = alert.cause_text.removeprefix(f"{Outcome.OK} -> ")
    return "" if _begins_with(_shape(first), _shape(told)) else one_line(told)


def _begins_with(first: str, told: str) -> bool:
    """Return whether `first`, a cause and perhaps more of it, is that of `told`."""
    if min(len(first), len(told)) >= _COMPARED_LENGTH:
        return first[:_COMPARED_LENGTH] == told[:_COMPARED_LENGTH]
    return first == told or first.startswith(f"{told};")


def _shape(text: str) -> str:
    return _VARYING.sub("#", _FOLDERS.sub("/", one_line(text)))
