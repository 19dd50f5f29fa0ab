"""What the views are given: one record a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from compile_hud.app.ui.alert_text import AlertText
from compile_hud.db.alerts.annotations import Annotation
from compile_hud.db.records.alerts import Alert, Event
from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.records.results import Case, Run
from compile_hud.db.records.summaries import (
    OutcomePoint,
    ResultSummary,
    RunSummary,
    Scope,
    SeriesHeader,
    TrendPoint,
)
from compile_hud.db.records.triage import AlertChange

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[_Value]):
    """A value, the version of the store it is of, and why it may be stale (empty: it is not)."""

    value: _Value
    version: int
    stale_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMove:
    """How a reference case of a run stands against the runs before it.

    `kind` is what it is bound by, `verdict` is moved, steady or unknown; the numbers are None where
    there is nothing to compare with. Above 0 is slower.
    """

    model: str
    kind: str
    metric: str
    verdict: str
    reason: str
    change_pct: float | None = None
    interval_pct: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The scopes with latest results, and what the overview shows for all of them.

    `places` are those with more than reference cases. `machine` says for each machine and toolchain
    how it stood in the newest run, `dead_letters` for each receiver how many notifications it never
    got.
    """

    runs: tuple[RunSummary, ...]
    places: tuple[Scope, ...]
    alerts: tuple[Alert, ...]
    machine: Mapping[tuple[str, str], tuple[MachineMove, ...]] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One level of a series and the range in which its points lie when nothing changes."""

    start: datetime
    end: datetime
    level: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentChange:
    """The first run in another environment, and the facts that differ as (name, old, new)."""

    at: datetime
    run_id: str
    differences: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPage:
    """Everything the series page shows: one case on one machine in one toolchain.

    `headers` are all series of the case, `toolchains` all that measured it on the machine. `paced`
    are the points at one pace of the machine, which is what the judge looks at; empty where no pace
    was measured. `alerts` are those to mark, `annotations` what people said of dates.
    """

    case: Case
    machine: str
    toolchain: str
    toolchains: tuple[str, ...]
    headers: tuple[SeriesHeader, ...]
    siblings: tuple[SeriesHeader, ...]
    points: tuple[TrendPoint, ...]
    normalised: tuple[TrendPoint, ...]
    bands: tuple[Band, ...]
    outcomes: tuple[OutcomePoint, ...]
    environment_changes: tuple[EnvironmentChange, ...]
    alerts: tuple[Alert, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Everything the run page shows."""

    run: Run
    results: tuple[ResultSummary, ...]
    alerts: tuple[Alert, ...]
    machine: tuple[MachineMove, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsPage:
    """Everything the kernels page shows of a run, and of one of its results where there is one.

    `kernels` are those of the result, the longest first. `profile_problem` says why a stored
    profile cannot be read, `noise` what makes its times uncertain. `cases` are those of the run
    that have kernels. `has_trace` is whether the trace is kept; `has_traces` whether any trace
    could be.
    """

    run: Run
    result: ResultSummary | None
    cases: tuple[Case, ...]
    kernels: tuple[Kernel, ...] = ()
    profile: Profile | None = None
    profile_problem: str = ""
    noise: str = ""
    has_trace: bool = False
    has_traces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertList:
    """The alerts of the events that are listed, and these events by id.

    `has_others` says whether the store has any alert at all.
    """

    alerts: tuple[Alert, ...]
    events: Mapping[str, Event]
    has_others: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """An event with all its alerts and their changes, oldest first."""

    event: Event | None
    alerts: tuple[Alert, ...]
    changes: tuple[AlertChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPage:
    """Everything the page of one alert shows; `changes` come oldest first.

    `num_beside` is how many other alerts its event has. `series` is the one that shows the alert,
    with this alert alone; None when the store no longer has it. `fails_now` says how a case that
    still fails does so by now, where that is not what the alert tells. `profiled` are the ids of
    the runs that have kernels of its case.
    """

    alert: Alert
    text: AlertText
    event: Event | None
    num_other_alerts: int
    series: SeriesPage | None
    changes: tuple[AlertChange, ...]
    fails_now: str = ""
    profiled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSummary:
    """What one compile mode does for the models of a table.

    `mean` is the geometric mean of the speedups over `num_common` of `num_subjects` models (each
    with its phase, shape, dtype and device); None when no model is ok in every mode.
    `num_speedups` of them have one in this mode.
    `failures` counts the cases that ended badly, by outcome, and `untried` those that were skipped
    or lost, which are none of `num_tried`.
    `missing` counts the cases without new results, the vanished apart from the late;
    `effective_modes` counts the modes that ran instead, by name.
    """

    variant: str
    mean: float | None
    num_common: int
    num_subjects: int
    num_speedups: int
    num_ok: int
    num_attempted: int
    failures: tuple[tuple[str, int], ...]
    untried: tuple[tuple[str, int], ...]
    missing: tuple[tuple[str, int], ...]
    effective_modes: tuple[tuple[str, int], ...]
