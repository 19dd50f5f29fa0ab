"""The results in `/metrics`: the newest means of the modes, and the open alerts by severity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.store import StoreVersion
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.latest import load_scopes
from compile_hud.db.queries.trends import load_result_history
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.triage import ONGOING, is_muted
from compile_hud.runner.analysis.alerts.severity import severity_of
from compile_hud.runner.analysis.trends.records import PASS_RATE, TREND_METRICS, ModeValue
from compile_hud.runner.analysis.trends.trends import newest_values

# No run is later: the newest results are all that is read.
_END = datetime(9999, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFigures:
    """The newest values of the modes by machine and toolchain, and the ongoing regressions."""

    values: Mapping[tuple[str, str], tuple[ModeValue, ...]] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()

    def num_open(self, *, now: datetime) -> dict[tuple[str, Severity], int]:
        """Return the number of ongoing regressions that are not muted, by machine and severity.

        A machine with results has every severity.
        """
        counts = Counter(
            (alert.machine, severity_of(alert))
            for alert in self.alerts
            if not is_muted(alert, at=now)
        )
        machines = {machine for machine, _ in self.values} | {machine for machine, _ in counts}
        return {
            (machine, severity): counts[machine, severity]
            for machine in sorted(machines)
            for severity in Severity
        }


@cached_read
def load_result_figures(at: StoreVersion) -> ResultFigures:
    """Return the figures of all machines and toolchains with newest results."""
    metrics = [name for name in TREND_METRICS if name != PASS_RATE]
    with at.store.reading():
        ongoing = load_alerts(at.store, states=ONGOING)
        histories = {
            (scope.machine, scope.toolchain): load_result_history(
                at.store,
                machine=scope.machine,
                toolchain=scope.toolchain,
                since=_END,
                metrics=metrics,
            )
            for scope in load_scopes(at.store)
            if scope.has_cases
        }
    return ResultFigures(
        values={
            scope: newest_values(
                history,
                alerts=[alert for alert in ongoing if (alert.machine, alert.toolchain) == scope],
            )
            for scope, history in histories.items()
        },
        alerts=tuple(alert for alert in ongoing if alert.verdict is Verdict.REGRESSION),
    )
