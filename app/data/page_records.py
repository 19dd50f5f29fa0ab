"""The data of the views: one record a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from compile_hud.app.ui.alert_text import AlertText
from compile_hud.db.alerts.annotations import Annotation
from compile_hud.db.records.alerts import Alert, Event
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.kernels import Kernel, KernelTotals, Profile
from compile_hud.db.records.notifications import Severity
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
from compile_hud.db.shared.model_sources import ModelCodeDiff

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[_Value]):
    """A value, its version of the store, and the reason why it may be stale ("" if it is not)."""

    value: _Value
    version: int
    stale_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMove:
    """The change of a reference case of a run against earlier runs.

    `kind` is the resource that bounds it; `verdict` is moved, steady or unknown. The numbers are
    None without an earlier run. Above 0 is slower.
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
    """The scopes with latest results, and the data of the overview for all of them.

    `places` are scopes with more than reference cases. `machine` has the reference cases of the
    newest run of each machine and toolchain, `dead_letters` the number of failed notifications of
    each receiver.
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

    `headers` are all series of the case, `toolchains` all that measured it on the machine.
    `normalised` are the points divided by the machine's speed, which the detector judges; empty
    without a speed probe. `alerts` are those to mark, `annotations` those that concern the series.
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
    """Everything the run page shows.

    `own_eager_s` has the time of eager's own process for each case whose eager time differs.
    `findings` are by the id of the result.
    """

    run: Run
    results: tuple[ResultSummary, ...]
    alerts: tuple[Alert, ...]
    machine: tuple[MachineMove, ...] = ()
    own_eager_s: Mapping[str, float] = field(default_factory=dict)
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsPage:
    """Everything the kernels page shows of a run, and of one of its results if there is one.

    `kernels` are those of the result, the longest first. `profile_problem` is the reason why a
    stored profile cannot be read, `noise` the reason why its times are uncertain. `cases` are those
    of the run that have kernels, if no result is chosen. `has_trace` tells whether the trace is
    stored, `has_traces` whether the dashboard has a folder of traces.
    """

    run: Run
    result: ResultSummary | None
    cases: tuple[tuple[Case, KernelTotals], ...] = ()
    kernels: tuple[Kernel, ...] = ()
    profile: Profile | None = None
    profile_problem: str = ""
    noise: str = ""
    has_trace: bool = False
    has_traces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertList:
    """The alerts of the listed events, and these events by id.

    `has_others` tells whether the store has any alert at all. `severities` are by the ids of the
    alerts, `trends` the last medians of their series by series key, oldest first.
    """

    alerts: tuple[Alert, ...]
    events: Mapping[str, Event]
    has_others: bool
    severities: Mapping[str, Severity]
    trends: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """An event with all its alerts and their changes, oldest first.

    `severities` and `trends` are as those of an AlertList.
    """

    event: Event | None
    alerts: tuple[Alert, ...]
    changes: tuple[AlertChange, ...]
    severities: Mapping[str, Severity]
    trends: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPage:
    """Everything the page of one alert shows; `changes` come oldest first.

    `event_title` is the title of its event, as the list has it, and `num_other_alerts` the number
    of other alerts of it. `series` is the one that shows
    the alert, with this alert only; None when the store no longer has it. `fails_now` is the
    present outcome of a case that still fails, if it differs from that of the alert. `profiled` are
    the ids of the runs that have kernels of its case. `code` is the change of the model's code
    between the last good and the first bad run, None for the same code. `failure` is the first bad
    result of an alert about a failure, None for others or if it was pruned.
    """

    alert: Alert
    text: AlertText
    event: Event | None
    num_other_alerts: int
    series: SeriesPage | None
    changes: tuple[AlertChange, ...]
    event_title: str = ""
    fails_now: str = ""
    profiled: frozenset[str] = frozenset()
    code: ModelCodeDiff | None = None
    failure: ResultSummary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSummary:
    """The results of one compile mode for the models of a table in one phase on one device.

    `label` names phase and device if the table has several. `mean` is the geometric mean of the
    speedups over `num_common` of `num_subjects` models; None when no model is ok in every mode.
    `num_speedups` of them have one in this mode. `failures` counts bad outcomes of the
    `num_attempted` cases, `untried` the cases that were skipped or whose node disconnected.
    `missing` counts missing and overdue cases separately. `bad_urls` has the address of the cases
    behind each of these counts, by outcome or kind. `effective_modes` counts the modes that
    ran instead, by name. `stand_in` is the mode whose numbers all of these are, "" for none.
    `unavailable` says why the device has no such mode, "" if a case of it was attempted.
    """

    variant: str
    label: str
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
    stand_in: str
    unavailable: str = ""
    bad_urls: Mapping[str, str] = field(default_factory=dict)
