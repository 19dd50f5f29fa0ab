"""Routes of hud.toml: which alert changes go to which receivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

ANY: Final = ("*",)
# The kinds of changes of an alert, without test messages and weekly digests.
NOTIFIED_KINDS: Final = tuple(
    str(kind)
    for kind in AlertChangeKind
    if kind not in (AlertChangeKind.TEST, AlertChangeKind.WEEKLY)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The alert changes that go to `receivers`: each list must have a match.

    Imported results count only with `imported`. `findings` are codes of new findings behind an
    alert; one of them must match.
    """

    name: str
    receivers: tuple[str, ...]
    models: tuple[str, ...] = ANY
    modes: tuple[str, ...] = ANY
    metrics: tuple[str, ...] = ANY
    owners: tuple[str, ...] = ANY
    machines: tuple[str, ...] = ANY
    devices: tuple[str, ...] = ANY
    toolchains: tuple[str, ...] = ANY
    phases: tuple[str, ...] = ANY
    dtypes: tuple[str, ...] = ANY
    findings: tuple[str, ...] = ANY
    severities: tuple[str, ...] = tuple(map(str, Severity))
    verdicts: tuple[str, ...] = (str(Verdict.REGRESSION),)
    news: tuple[str, ...] = NOTIFIED_KINDS
    imported: bool = False

    @property
    def needs_findings(self) -> bool:
        """Return whether the findings behind an alert decide."""
        return self.findings != ANY

    def needs_findings_of(self, alert: Alert) -> bool:
        """Return whether the findings behind `alert` decide, since it matches all other lists."""
        return self.needs_findings and replace(self, findings=ANY).covers(alert)

    def takes(self, alert: Alert, *, kind: AlertChangeKind, findings: Sequence[str] = ()) -> bool:
        """Return whether this route sends changes of that kind about `alert`.

        `findings` are the codes of the new ones behind it.
        """
        return kind in self.news and self.covers(alert, findings=findings)

    def covers(self, alert: Alert, *, findings: Sequence[str] = ()) -> bool:
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
            and _fits(self.machines, alert.machine)
            and _fits(self.devices, case.device)
            and _fits(self.toolchains, alert.toolchain)
            and _fits(self.phases, case.phase)
            and _fits(self.dtypes, case.dtype)
            and (not self.needs_findings or any(_fits(self.findings, code) for code in findings))
        )


def _fits(globs: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
