"""What queries return besides the records: summaries, series and histories. No SQL here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import Case, Outcome, Run, RunState
from compile_hud.db.records.run_warning import RunWarning

# Four heartbeats: three may be missed while the store is busy. After that a run has likely died.
HEARTBEAT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run, how its cases ended so far, and its last sign of life.

    `worked_s` is how long the cases with a result took together: what a run was paused is not in
    it, nor a case that is going.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestCell:
    """The newest result of a case on a machine, and the run it is from."""

    summary: Outline
    run_id: str
    run_started_at: datetime
    revision: str
    toolchain: str
    machine: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A machine and a toolchain with newest results.

    `newest_at` is when the newest run of one of them began. `has_cases` says whether there are more
    than reference cases; `reference_run_id` is the newest run with one of those, "" without one.
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
    """A point with what leads to its samples."""

    result_id: str
    num_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesHeader:
    """What a series is about, and its latest point; `machine` is where that was measured.

    `direction` is which way is better as records of others state it, None where none does.
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
    """How a planned case ended in a run; `outcome` and `result_id` are None without a result.

    What `is_deferred` was skipped because its run had no time left for it.
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
    """How a case ended on a machine in each run of a toolchain that planned it, oldest first."""

    case: Case
    machine: str
    toolchain: str
    points: tuple[OutcomePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run with what it planned, which is one tuple for all runs that planned the same."""

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
        """Return how a case ended in this run; without an outcome, that it has no result."""
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
    """The ok results of some cases, in any order: the numbers of run and case, and if it `has` it.

    Runs are numbered as they were given, cases by their index in `case_keys`; `has` has a row for
    each result and a column for each of `metrics`.
    """

    case_keys: Sequence[str]
    metrics: Sequence[str]
    runs: np.ndarray
    cases: np.ndarray
    has: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample in its metric's unit; `launch` counts the fresh processes from 0."""

    value: float
    launch: int
    is_warmup: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEnding:
    """How a case ended in the newest run that tried it, and why."""

    outcome: Outcome
    reason: str
