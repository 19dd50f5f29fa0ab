"""Sessions that start from an empty cache at each launch, for metrics of the first launches."""

from __future__ import annotations

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.analysis.stats.rounds import results_by_case
from compile_hud.runner.execution.executor import CaseOrder, CaseSession, SessionMaker
from compile_hud.runner.protocol.messages import LaunchReport

# Number of launches with an empty compile cache until the metric appears, once. Other metrics
# appear in every launch.
LAUNCHES_FROM_COLD = {
    "compile_cold_s": 1,
    "compile_cold_cpu_s": 1,
    "compile_warm_s": 2,
    "sweep_recompiles": 1,
    "sweep_speedup": 1,
}


class ColdCacheSessions:
    """Makes sessions whose every launch is `num_launches` launches from an empty cache."""

    def __init__(self, maker: SessionMaker, *, num_launches: int) -> None:
        self._maker = maker
        self._num_launches = num_launches

    def begin(self, order: CaseOrder) -> CaseSession:
        """Return a session of the case, nothing launched yet; raise ExecutorError."""
        return _ColdCacheSession(self._maker, order=order, num_launches=self._num_launches)


class _ColdCacheSession:
    """A CaseSession whose result combines all of its sessions."""

    def __init__(self, maker: SessionMaker, *, order: CaseOrder, num_launches: int) -> None:
        self._maker = maker
        self._order = order
        self._num_launches = num_launches
        self._results: list[CaseResult] = []

    @property
    def needs_launch(self) -> bool:
        """Return whether the case needs more launches."""
        return len(self._results) < self._order.settings.num_launches

    @property
    def has_time(self) -> bool:
        """Return True: each session has a time limit of its own."""
        return True

    def launch(self) -> LaunchReport:
        """Run one complete session and return its last report."""
        session = self._maker.begin(self._order)
        try:
            for _ in range(self._num_launches):
                report = session.launch()
                if report.outcome is not Outcome.OK:
                    break
            self._results.append(session.finish())
        finally:
            session.close()
        return report

    def finish(self) -> CaseResult:
        """Return the case result of all launches so far."""
        return results_by_case(self._results)[self._order.case.key]

    def close(self) -> None:
        """Do nothing: each session was closed after its launches."""
