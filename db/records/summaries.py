"""The records that queries return besides results: summaries, series and histories. No SQL here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import Case, Outcome, Run, RunRef, RunState, seconds_of_result
from compile_hud.db.records.run_warning import RunWarning

# Only the types are named here, and loading it takes 40 ms.
if TYPE_CHECKING:
    import numpy as np

# Four heartbeats: three may be missed while the store is busy. After that a run has likely died.
HEARTBEAT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run, its outcomes so far, and its last heartbeat.

    `worked_s` is the time of all cases with a result. It excludes pauses of the run and the running
    case.
    """

    run: Run
    num_by_outcome: Mapping[Outcome, int]
    worked_s: float
    heartbeat_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementSummary:
    """A measurement without its samples."""

    metric: str
    unit: str
    num_samples: int
    median: float
    low: float
    high: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A case result in short: its measurements, by metric, have no samples."""

    id: str
    run_id: str
    case: Case
    outcome: Outcome
    reason: str
    effective_mode: str
    started_at: datetime
    finished_at: datetime
    warnings: tuple[RunWarning, ...]
    measurements: Mapping[str, MeasurementSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSummary(Outline):
    """A case result with everything but samples and kernels."""

    details: Mapping[str, Any]
    log_tail: str

    @property
    def took_s(self) -> float:
        """Return the seconds that it took, without waits for a turn."""
        return seconds_of_result(self.started_at, self.finished_at, details=self.details)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSeconds:
    """The seconds that a result took, and those in which a launch had the device alone.

    `alone_s` is None for a result whose launches did not compile ahead.
    """

    took_s: float
    alone_s: float | None = None

    def shared(self, num_processes: int) -> float:
        """Return the seconds by which the case makes a run longer that compiles so many at a time.

        Seconds of an unknown kind count whole.
        """
        alone_s = self.took_s if self.alone_s is None else min(self.took_s, self.alone_s)
        return alone_s + (self.took_s - alone_s) / num_processes


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestCell:
    """The newest result of a case on a machine, and its run.

    `model_revision` is the revision of the model's code, empty if unknown.
    """

    summary: Outline
    run_id: str
    run_started_at: datetime
    revision: str
    toolchain: str
    machine: str
    fingerprint: str
    model_revision: str = ""

    def differing_revisions(self, other: LatestCell) -> tuple[tuple[str, str, str], ...]:
        """Return `torch` or `model code` with the revision of this result and of `other`.

        Equal revisions are left out, and those that a run did not record.
        """
        pairs = (
            ("torch", self.revision, other.revision),
            ("model code", self.model_revision, other.model_revision),
        )
        return tuple(pair for pair in pairs if pair[1] and pair[2] and pair[1] != pair[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A machine and a toolchain with newest results.

    `newest_at` is the start of the newest run of one of them. `has_cases` is False with reference
    cases only; `reference_run_id` is the newest run with a reference case, "" without one.
    """

    machine: str
    toolchain: str
    newest_at: datetime
    has_cases: bool
    reference_run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measurement in a series; `at` is when its run started."""

    series_key: str
    run_id: str
    revision: str
    at: datetime
    machine: str
    toolchain: str
    fingerprint: str
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint(Point):
    """A point with the keys of its samples."""

    result_id: str
    num_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesHeader:
    """The identity of a series, and its latest point; `machine` measured that point.

    `direction` is the better direction as imported records state it, None without one.
    """

    key: str
    case: Case
    metric: str
    unit: str
    machine: str
    fingerprint: str
    num_points: int
    first_at: datetime
    last_at: datetime
    last_run_id: str
    last_value: float
    direction: Direction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series with its points, oldest first."""

    header: SeriesHeader
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomePoint:
    """The outcome of a planned case in a run; `outcome` and `result_id` are None without a result.

    `is_deferred` marks a case that was skipped because its run had no time left for it.
    """

    run_id: str
    result_id: str | None
    revision: str
    at: datetime
    suite: str
    run_state: RunState
    fingerprint: str
    outcome: Outcome | None
    is_deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeHistory:
    """The outcomes of a case on a machine in each run that planned it, oldest first."""

    case: Case
    machine: str
    toolchain: str
    points: tuple[OutcomePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run with its plan; runs with equal plans share one tuple."""

    id: str
    at: datetime
    revision: str
    suite: str
    state: RunState
    machine: str
    toolchain: str
    fingerprint: str
    plan: tuple[Case, ...]

    @property
    def scope(self) -> tuple[str, str]:
        """Return the machine and the toolchain."""
        return (self.machine, self.toolchain)

    def point(
        self,
        *,
        result_id: str | None = None,
        outcome: Outcome | None = None,
        is_deferred: bool = False,
    ) -> OutcomePoint:
        """Return the point of a case in this run; without an outcome, its result is missing."""
        return OutcomePoint(
            run_id=self.id,
            result_id=result_id,
            revision=self.revision,
            at=self.at,
            suite=self.suite,
            run_state=self.state,
            fingerprint=self.fingerprint,
            outcome=outcome,
            is_deferred=is_deferred,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OkResults:
    """The ok results of some cases, in any order: the numbers of run and case, and their metrics.

    Runs are numbered in the order of the call, cases by their index in `case_keys`. `has` is a row
    for each result and a column for each of `metrics`: True if the result has the metric.
    """

    case_keys: Sequence[str]
    metrics: Sequence[str]
    runs: np.ndarray
    cases: np.ndarray
    has: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRun:
    """A run as a point in time; `model_commits` has the revision of each model's code."""

    id: str
    at: datetime
    suite: str
    revision: str
    fingerprint: str
    model_commits: Mapping[str, Any]
    is_synthetic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultHistory:
    """The results of cases over runs of one machine in one toolchain, oldest first.

    The matrices have a row for each of `runs` after a first one for all older runs, and a column
    for each of `cases`. `outcomes` are indices of `Outcome`, -1 without a result; `sources` are the
    columns of the cases with the same code, -1 for none. `fallbacks` are the numbers of the modes
    that ran instead, eager's after all others, -1 for none. `values` are by metric: medians, lower
    and upper bounds, NaN without a measurement. The first `num_before` of `runs` precede the range.
    """

    machine: str
    toolchain: str
    runs: Sequence[HistoryRun]
    cases: Sequence[Case]
    outcomes: np.ndarray
    sources: np.ndarray
    fallbacks: np.ndarray
    values: Mapping[str, np.ndarray]
    num_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample in its metric's unit; `launch` counts the fresh processes from 0."""

    value: float
    launch: int
    is_warmup: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEnding:
    """The outcome of a case in the newest run that tried it, and the reason."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNight:
    """The kernels of one result, with the median of its latency; neither is missing."""

    run: RunRef
    result_id: str
    latency_s: float
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelHistory:
    """The newest results of a case in one environment of one machine and toolchain.

    The nights are in the order of their runs, the oldest first.
    """

    case: Case
    machine: str
    toolchain: str
    fingerprint: str
    nights: tuple[KernelNight, ...]
