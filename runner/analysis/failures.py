"""A failure that lasts, and fails in another way by now.

It stays one alert, since the case is broken all the while. But who acknowledged the one error has
not heard of the other.
"""

from __future__ import annotations

import re

from db.records import Alert, Outcome
from db.summaries import LastEnding
from db.text import one_line
from db.triage import ONGOING
from runner.analysis.outcomes import OUTCOME

# Addresses, sizes and counters differ from night to night.
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?", re.IGNORECASE)
# What follows is a traceback or a dump; which error it is stands before.
_TOLD_LENGTH = 200


def fails_otherwise(alert: Alert, last: LastEnding | None) -> str:
    """Return how the case of a lasting failure ended `last`, where that is not what was told.

    Empty for all other alerts, and where only numbers differ.
    """
    if alert.kind != OUTCOME or alert.state not in ONGOING:
        return ""
    if last is None or last.outcome is Outcome.OK:
        return ""
    told = f"{last.outcome}: {last.reason}" if last.reason else str(last.outcome)
    first = alert.cause_text.removeprefix(f"{Outcome.OK} -> ")
    return "" if _shape(first).startswith(_shape(told)) else one_line(told)


def _shape(text: str) -> str:
    return _NUMBER.sub("#", one_line(text))[:_TOLD_LENGTH]
