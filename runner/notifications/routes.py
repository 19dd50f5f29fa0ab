"""Routes of hud.toml: which alert changes go to which receivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.notifications import (
    AlertChangeKind,
    Severity,
)
from compile_hud.db.records.results import Verdict
from compile_hud.runner.analysis.alerts.severity import severity_of

# The kinds of changes of an alert, without test messages and weekly digests.
NOTIFIED_KINDS: Final = tuple(
    str(kind)
    for kind in AlertChangeKind
    if kind not in (AlertChangeKind.TEST, AlertChangeKind.WEEKLY)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The alert changes that go to `receivers`: each list must have a match.

    Imported results count only with `imported`.
    """

    name: str
    receivers: tuple[str, ...]
    models: tuple[str, ...] = ("*",)
    modes: tuple[str, ...] = ("*",)
    metrics: tuple[str, ...] = ("*",)
    owners: tuple[str, ...] = ("*",)
    severities: tuple[str, ...] = tuple(map(str, Severity))
    verdicts: tuple[str, ...] = (str(Verdict.REGRESSION),)
    news: tuple[str, ...] = NOTIFIED_KINDS
    imported: bool = False

    def takes(self, alert: Alert, *, kind: AlertChangeKind) -> bool:
        """Return whether this route sends changes of that kind about `alert`."""
        return kind in self.news and self.covers(alert)

    def covers(self, alert: Alert) -> bool:
        """Return whether `alert` matches each list; `news` is not considered."""
        case = alert.case
        return (
            (self.imported or not is_imported(alert.toolchain))
            and alert.verdict in self.verdicts
            and severity_of(alert) in self.severities
            and _fits(self.models, case.model)
            and (_fits(self.modes, case.mode) or _fits(self.modes, case.variant))
            and _fits(self.metrics, alert.metric)
            and _fits(self.owners, alert.owner)
        )


def _fits(globs: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
