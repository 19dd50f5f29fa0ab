"""The state of a page is its URL: parse it at the edge, build links to it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.kernels import KINDS, LIBRARIES
from compile_hud.db.records.metrics import CACHES, COLD, MAX_EXPECTED_CALLS
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Dtype, Outcome, Phase, Verdict
from compile_hud.db.shared.text import shortened

# The format of a moment in a URL: to the minute, in UTC.
_MOMENT_FORM = "%Y-%m-%dT%H:%M"
_DATE_FORM = "%Y-%m-%d"
# The overview compares models and modes by these metrics; all others are on the case's pages.
OVERVIEW_METRICS = ("speedup", "latency_s", "compile_cold_s", "compile_warm_s", "peak_bytes")
# The shades of the matrix of the overview, and its filters of rows.
MATRIX_HEATS = ("value", "change")
MATRIX_FILTERS = ("alerts", "failing", "stale")
# The metrics of the trend of the overview.
OVERVIEW_TRENDS = (
    *("speedup", "pass_rate", "compile_cold_s", "compile_warm_s", "peak_bytes"),
    "energy_j",
)
DEFAULT_SERIES_METRIC = "latency_s"
# The metric of alerts about a case that fails or is missing; any trend shows where it ends.
OUTCOME = "outcome"
# The parameter that stands for all states on the alerts page.
ALL_STATES = "all"
# The value of a parameter that is either present or absent.
YES = "yes"
# The value that shows a long table whole instead of its first rows.
ALL_ROWS = "all"
# The ranges of trends in days; the last one reaches back to the first run.
ALL_RUNS = "all"
DAY_RANGES = ("7", "30", "90", "365")
RANGES = (*DAY_RANGES, ALL_RUNS)
DEFAULT_RANGE = "90"
SCALES = ABSOLUTE, RELATIVE = ("absolute", "relative")
# The parts of a case on the page of its run; the first one, its summary, has no name.
CASE_TABS = MEMORY, COMPILE, ACCURACY, FINDINGS, LOG = (
    *("memory", "compile", "accuracy", "findings", "log"),
)
# The study that the page shows first.
DEFAULT_STUDY = "families"
# The range of the page that is drawn, for the links on it; empty for the default.
_carried_range: ContextVar[str] = ContextVar("carried_range", default="")
# The digits of the id of a kernel.
_ID_LENGTH = 12
# Longer values are an accident, and not worth a page of text.
_SHOWN_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseState:
    """The filters of the latest results on a page; an empty filter lets everything through.

    `machine` and `toolchain` are the exceptions: numbers of two machines or of two toolchains are
    never in one table. So empty means the machine of the latest run, and the toolchain of the
    latest result there.
    """

    machine: str = ""
    toolchain: str = ""
    device: str = ""
    phase: str = ""
    dtype: str = ""
    shape: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewState(CaseState):
    """The state of the overview; an empty metric means the speedup, or latencies without one.

    `range` is that of the trends: the number of days until now, or ALL_RUNS. `trend` is the metric
    of the trend. `sort`, `heat` and `only` are those of `MatrixView` in
    app/components/matrix/order.py. `rows` is the number of rows of the matrix.
    """

    metric: str = ""
    range: str = DEFAULT_RANGE
    trend: str = OVERVIEW_TRENDS[0]
    sort: str = ""
    heat: str = MATRIX_HEATS[0]
    only: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesState(CaseState):
    """The state of the page of modes; `cache` selects cold or warm compile time.

    `calls` is the expected number of calls per process, empty for many. `group` is the group that
    is shown in full, empty for the first one.
    """

    cache: str = COLD
    calls: str = ""
    group: str = ""

    @property
    def num_calls(self) -> int | None:
        """Return the expected number of calls per process, None for many."""
        return int(self.calls) if self.calls else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsState(CaseState):
    """The state of the page of models; `text` is searched in name, family and summary."""

    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState(CaseState):
    """The state of the page of one model; `range` is that of its trend (TrendsState)."""

    range: str = DEFAULT_RANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendsState(CaseState):
    """The state of the page of trends; an empty metric, mode or dimension `by` means all.

    `range` is the number of days until now, or ALL_RUNS; `since` and `until` bound a brushed part
    of it. `scale` is ABSOLUTE or RELATIVE, the change since the first run.
    """

    range: str = DEFAULT_RANGE
    since: str = ""
    until: str = ""
    metric: str = ""
    mode: str = ""
    by: str = ""
    scale: str = ABSOLUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesState:
    """The state of the series page; an empty result means the latest one.

    `since` and `until` bound the part of the time that is drawn (`moment_in`, `end_in`), the
    `range` where both are empty. `raw` draws the single samples too.
    """

    case: str = ""
    metric: str = DEFAULT_SERIES_METRIC
    machine: str = ""
    toolchain: str = ""
    result: str = ""
    range: str = DEFAULT_RANGE
    since: str = ""
    until: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPageState:
    """The state of the run page; an empty run means the latest one.

    `tab` is the part of the case that is shown, empty for its summary. `samples` is the metric of
    the case whose samples are drawn.
    """

    run: str = ""
    case: str = ""
    tab: str = ""
    samples: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsState:
    """The state of the kernels page: a case of a run; empty means the latest run.

    `kernel` is the id of the opened kernel (`kernel_id` in app/views/kernels/tables.py). `text`,
    `kind` and `library` filter the table.
    """

    run: str = ""
    case: str = ""
    kernel: str = ""
    text: str = ""
    kind: str = ""
    library: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDiffState:
    """The state of the kernel diff: empty runs are the latest, an empty case is the other side's.

    `change` filters one class of changes; `row` is the number of the opened row.
    """

    baseline_run: str = ""
    baseline_case: str = ""
    candidate_run: str = ""
    candidate_case: str = ""
    change: str = ""
    row: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareState:
    """The two sides of a comparison, and the filters of its rows.

    A run is an id, the unique start of one, `latest` or a revision. An empty candidate is the
    newest run that has ended, an empty baseline the run before the candidate. Two different
    variants are compared with each other; a single one applies to both sides.
    """

    baseline: str = ""
    candidate: str = ""
    baseline_variant: str = ""
    candidate_variant: str = ""
    metric: str = ""
    model: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionsState:
    """The two revisions that are compared, and the filters of the rows.

    An empty machine is that of the newest run, an empty toolchain any. An empty candidate is the
    newest revision, an empty baseline the one before the candidate.
    """

    machine: str = ""
    toolchain: str = ""
    baseline: str = ""
    candidate: str = ""
    metric: str = ""
    model: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsState:
    """The filters of the list of runs; an empty one lets every run through.

    `outcome` lets runs through that have a case with it. `since` and `until` bound the start
    (`moment_in`, `end_in`), the `range` where both are empty. `text` is searched in id, suite,
    machine, toolchain and revisions.
    """

    machine: str = ""
    suite: str = ""
    toolchain: str = ""
    state: str = ""
    outcome: str = ""
    range: str = DEFAULT_RANGE
    since: str = ""
    until: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """The selected release, by the run of its candidate; empty is the newest."""

    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudiesState:
    """The selected study."""

    study: str = DEFAULT_STUDY


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """The words that are searched for."""

    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsState:
    """The state of the alerts page: one alert, one event, or the events that pass the filters.

    An event is in each state that an alert of it is in; an empty state means the ongoing ones. Any
    other empty filter lets everything through. `began` is the number of days until now in which
    the change began. `text` is searched in titles, cases, causes, revisions and owners.
    """

    alert: str = ""
    event: str = ""
    state: str = ""
    model: str = ""
    mode: str = ""
    severity: str = ""
    machine: str = ""
    owner: str = ""
    began: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """The page of health has nothing to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiversState:
    """The page of receivers has nothing to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsState:
    """The page of settings has nothing to choose."""


_AnyState = (
    CaseState
    | SeriesState
    | RunPageState
    | KernelsState
    | KernelDiffState
    | CompareState
    | RevisionsState
    | RunsState
    | ReleaseState
    | StudiesState
    | SearchState
    | AlertsState
    | HealthState
    | ReceiversState
    | SettingsState
)
_State = TypeVar("_State", bound=_AnyState)
_CaseState = TypeVar("_CaseState", bound=CaseState)
_PartState = TypeVar("_PartState", RunsState, SeriesState, TrendsState)
_CASE_PAGES: Mapping[type, str] = {
    OverviewState: "./",
    TrendsState: "trends",
    ModesState: "modes",
    ModelsState: "models",
    ModelState: "model",
}


def parse_overview(params: Mapping[str, str]) -> tuple[OverviewState, tuple[str, ...]]:
    """Return the overview's state and a sentence for each parameter that was not understood."""
    allowed = {
        "phase": tuple(Phase),
        "dtype": tuple(Dtype),
        "metric": OVERVIEW_METRICS,
        "range": RANGES,
        "trend": OVERVIEW_TRENDS,
        "heat": MATRIX_HEATS,
        "only": MATRIX_FILTERS,
        "rows": (ALL_ROWS,),
    }
    return _parse(OverviewState, params, allowed)


def parse_modes(params: Mapping[str, str]) -> tuple[ModesState, tuple[str, ...]]:
    """Return the state of the page of modes and a sentence for each parameter not understood."""
    allowed = {
        "phase": tuple(Phase),
        "dtype": tuple(Dtype),
        "cache": CACHES,
    }
    state, problems = _parse(ModesState, _without_rows(params), allowed)
    if state.calls and not _is_count(state.calls):
        shown = shortened(state.calls, limit=_SHOWN_LENGTH)
        limits = f"a whole number from 1 to {MAX_EXPECTED_CALLS:,}"
        problem = f"The URL asks for {shown!r} calls, which is not {limits}; it is ignored."
        return dataclasses.replace(state, calls=""), (*problems, problem)
    return state, problems


def _is_count(text: str) -> bool:
    return (
        text.isascii()
        and text.isdecimal()
        and len(text) <= 12
        and 1 <= int(text) <= MAX_EXPECTED_CALLS
    )


def parse_trends(
    params: Mapping[str, str],
    *,
    metrics: tuple[str, ...],
    modes: tuple[str, ...],
    dimensions: tuple[str, ...],
) -> tuple[TrendsState, tuple[str, ...]]:
    """Return the state of the page of trends and a sentence for each parameter not understood."""
    allowed = {
        "phase": tuple(Phase),
        "dtype": tuple(Dtype),
        "range": RANGES,
        "metric": metrics,
        "mode": modes,
        "by": dimensions,
        "scale": SCALES,
    }
    return _with_part(*_parse(TrendsState, _without_rows(params), allowed))


def parse_models(params: Mapping[str, str]) -> tuple[ModelsState, tuple[str, ...]]:
    """Return the state of the page of models and a sentence for each parameter not understood."""
    allowed = {"phase": tuple(Phase), "dtype": tuple(Dtype)}
    return _parse(ModelsState, _without_rows(params), allowed)


def parse_model(params: Mapping[str, str]) -> tuple[ModelState, tuple[str, ...]]:
    """Return the state of the page of a model and a sentence for each parameter not understood."""
    allowed = {
        "phase": tuple(Phase),
        "dtype": tuple(Dtype),
        "range": RANGES,
    }
    return _parse(ModelState, _without_rows(params), allowed)


def parse_series(params: Mapping[str, str]) -> tuple[SeriesState, tuple[str, ...]]:
    """Return the series page's state and a sentence for each parameter not understood."""
    # Imported histories bring metrics of their own, so any name may be right.
    allowed = {"raw": (YES,), "range": RANGES}
    state, problems = _parse(SeriesState, _without_rows(params), allowed)
    if state.metric == OUTCOME:
        state = dataclasses.replace(state, metric=DEFAULT_SERIES_METRIC)
    return _with_part(state, problems)


def parse_run(params: Mapping[str, str]) -> tuple[RunPageState, tuple[str, ...]]:
    """Return the run page's state and a sentence for each parameter not understood."""
    return _parse(RunPageState, _without_rows(params), {"tab": CASE_TABS})


def parse_kernels(params: Mapping[str, str]) -> tuple[KernelsState, tuple[str, ...]]:
    """Return the kernels page's state and a sentence for each parameter not understood."""
    return _parse(KernelsState, params, {"kind": KINDS, "library": LIBRARIES})


def parse_kernel_diff(
    params: Mapping[str, str], *, classes: tuple[str, ...]
) -> tuple[KernelDiffState, tuple[str, ...]]:
    """Return the kernel diff's state and a sentence for each parameter not understood.

    `classes` are those that a change can have.
    """
    state, problems = _parse(KernelDiffState, params, {"change": classes})
    if state.row and not (state.row.isascii() and state.row.isdecimal()):
        shown = shortened(state.row, limit=_SHOWN_LENGTH)
        problem = f"The URL asks for row {shown!r}, which is no number; none is opened."
        return dataclasses.replace(state, row=""), (*problems, problem)
    return state, problems


def parse_compare(params: Mapping[str, str]) -> tuple[CompareState, tuple[str, ...]]:
    """Return the compare page's state and a sentence for each parameter not understood."""
    return _parse(CompareState, params, {"verdict": tuple(Verdict)})


def parse_revisions(params: Mapping[str, str]) -> tuple[RevisionsState, tuple[str, ...]]:
    """Return the state of two revisions and a sentence for each parameter not understood."""
    return _parse(RevisionsState, params, {"verdict": tuple(Verdict)})


def parse_runs(
    params: Mapping[str, str], *, states: tuple[str, ...]
) -> tuple[RunsState, tuple[str, ...]]:
    """Return the runs page's state and a sentence for each parameter not understood.

    `states` are those that a run can have.
    """
    allowed = {"state": states, "outcome": tuple(map(str, Outcome)), "range": RANGES}
    state, problems = _parse(RunsState, _without_rows(params), allowed)
    return _with_part(state, problems)


def parse_search(params: Mapping[str, str]) -> tuple[SearchState, tuple[str, ...]]:
    """Return the state of the search and a sentence for each parameter not understood."""
    return _parse(SearchState, params, {})


def parse_release(params: Mapping[str, str]) -> tuple[ReleaseState, tuple[str, ...]]:
    """Return the state of the page of releases and a sentence for each unknown parameter."""
    return _parse(ReleaseState, params, {})


def parse_studies(
    params: Mapping[str, str], *, studies: tuple[str, ...]
) -> tuple[StudiesState, tuple[str, ...]]:
    """Return the state of the page of studies and a sentence for each parameter not understood."""
    return _parse(StudiesState, params, {"study": studies})


def parse_alerts(params: Mapping[str, str]) -> tuple[AlertsState, tuple[str, ...]]:
    """Return the alerts page's state and a sentence for each parameter not understood."""
    allowed = {
        "state": (ALL_STATES, *AlertState),
        "severity": tuple(map(str, Severity)),
        "began": DAY_RANGES,
    }
    return _parse(AlertsState, params, allowed)


def parse_health(params: Mapping[str, str]) -> tuple[HealthState, tuple[str, ...]]:
    """Return the state of a page without choices and a sentence for each parameter."""
    return _parse(HealthState, params, {})


def parse_receivers(params: Mapping[str, str]) -> tuple[ReceiversState, tuple[str, ...]]:
    """Return the state of a page without choices and a sentence for each parameter."""
    return _parse(ReceiversState, params, {})


def parse_settings(params: Mapping[str, str]) -> tuple[SettingsState, tuple[str, ...]]:
    """Return the state of a page without choices and a sentence for each parameter."""
    return _parse(SettingsState, params, {})


def overview_url(state: OverviewState) -> str:
    """Return the relative URL of the overview in `state`."""
    return _url("./", state)


def cases_url(state: CaseState) -> str:
    """Return the relative URL of the page of the latest results with this state."""
    return _url(_CASE_PAGES[type(state)], state)


def model_url(model: str, *, machine: str = "", toolchain: str = "") -> str:
    """Return the relative URL of the page of a model."""
    return _url("model", ModelState(model=model, machine=machine, toolchain=toolchain))


def series_url(
    case_key: str,
    *,
    metric: str = "",
    machine: str = "",
    toolchain: str = "",
    result: str = "",
    part: tuple[str, str] = ("", ""),
) -> str:
    """Return the relative URL of a case's series; without a metric the default one.

    `part` has the bounds of the time that is drawn (`moment_out`).
    """
    state = SeriesState(
        case=case_key,
        metric=metric or DEFAULT_SERIES_METRIC,
        machine=machine,
        toolchain=toolchain,
        result=result,
        since=part[0],
        until=part[1],
    )
    return _url("series", state)


def run_url(run_id: str, *, case_key: str = "", tab: str = "", samples: str = "") -> str:
    """Return the relative URL of a run, with one of its cases opened if it is named.

    `tab` is a part of the case. `samples` names the metric whose samples are drawn as well.
    """
    return _url("run", RunPageState(run=run_id, case=case_key, tab=tab, samples=samples))


def kernel_url_id(*facts: str) -> str:
    """Return the id of a kernel by its name, library, shapes and hash of the source."""
    return hashlib.sha256("\0".join(facts).encode(errors="replace")).hexdigest()[:_ID_LENGTH]


def kernels_url(run_id: str, *, case_key: str = "", kernel: str = "") -> str:
    """Return the relative URL of the kernels of a case, with one of them opened if it is named.

    Without a case the page lists the cases of the run that have kernels.
    """
    return _url("kernels", KernelsState(run=run_id, case=case_key, kernel=kernel))


def trace_url(result_id: str) -> str:
    """Return the relative URL of the trace of a result, a file to download."""
    return f"traces/{quote(result_id, safe='')}"


def perfetto_url(result_id: str) -> str:
    """Return the relative URL of the page that passes the trace of a result to Perfetto."""
    return f"perfetto/{quote(result_id, safe='')}"


def runs_url(state: RunsState) -> str:
    """Return the relative URL of the list of runs in `state`."""
    return _url("runs", state)


def kernel_diff_url(state: KernelDiffState) -> str:
    """Return the relative URL of the kernel diff in `state`; two equal cases are named once."""
    if state.candidate_case == state.baseline_case:
        state = dataclasses.replace(state, candidate_case="")
    return _url("kernel-diff", state)


def compare_url(state: CompareState) -> str:
    """Return the relative URL of the comparison in `state`."""
    return _url("compare", state)


def revisions_url(state: RevisionsState) -> str:
    """Return the relative URL of the comparison of two revisions in `state`."""
    return _url("revisions", state)


def release_url(run_id: str) -> str:
    """Return the relative URL of a release, by the run of its candidate."""
    return _url("release", ReleaseState(run=run_id))


def swapped(state: KernelDiffState) -> KernelDiffState:
    """Return `state` with baseline and candidate swapped."""
    return dataclasses.replace(
        state,
        baseline_run=state.candidate_run,
        baseline_case=state.candidate_case,
        candidate_run=state.baseline_run,
        candidate_case=state.baseline_case,
    )


def decide_url(alert_id: str) -> str:
    """Return the relative URL of the page on which an alert is triaged."""
    return _url("alerts", AlertsState(alert=alert_id))


def alerts_url(state: AlertsState) -> str:
    """Return the relative URL of the alerts in `state`."""
    return _url("alerts", state)


def event_url(event_id: str) -> str:
    """Return the relative URL of the page on which all alerts of an event are triaged."""
    return _url("alerts", AlertsState(event=event_id))


def without(state: _CaseState, *names: str) -> _CaseState:
    """Return `state` with the named filters at their defaults."""
    defaults: dict[str, Any] = dict.fromkeys(names, "")
    return dataclasses.replace(state, **defaults)


def moment_in(text: str) -> datetime | None:
    """Return the moment that a URL names, midnight of a date; None for neither."""
    if not text.isascii():
        # strptime accepts the digits of every script.
        return None
    for form in (_MOMENT_FORM, _DATE_FORM):
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    return None


def end_in(text: str) -> datetime | None:
    """Return the last moment that a URL names, that of the day for a date; None for neither.

    `--until` of the command line has the same meaning.
    """
    at = moment_in(text)
    if at is None or "T" in text:
        return at
    return at + timedelta(days=1, microseconds=-1)


def moment_out(at: datetime) -> str:
    """Return a moment in the format of a URL."""
    return f"{at:%Y-%m-%dT%H:%M}"


def query_params(state: _AnyState) -> dict[str, str]:
    """Return the URL parameters of `state`, without those at their defaults."""
    return {
        item.name: value
        for item in dataclasses.fields(state)
        if (value := getattr(state, item.name)) != item.default
    }


def carry_range(value: str) -> None:
    """Give the addresses that are made from now on this range, if their page has one.

    An address with a range of its own keeps that; an empty `value` gives none.
    """
    _carried_range.set("" if value == DEFAULT_RANGE else value)


def carried_range() -> str:
    """Return the range that links of this page carry, empty for the default."""
    return _carried_range.get()


def _url(page: str, state: _AnyState) -> str:
    values = query_params(state)
    if (carried := _carried_range.get()) and getattr(state, "range", "") == DEFAULT_RANGE:
        values["range"] = carried
    # `urlencode` encodes in the same way; the names of our parameters are plain words.
    params = "&".join(f"{name}={_quoted(value)}" for name, value in values.items())
    return f"{page}?{params}" if params else page


# A table of a thousand cases repeats the same values in the links to each of them.
@functools.lru_cache(maxsize=2048)
def _quoted(word: str) -> str:
    return quote_plus(word)


def _without_rows(params: Mapping[str, str]) -> dict[str, str]:
    """Return `params` without the number of rows: old links have it, and tables scroll now."""
    return {name: value for name, value in params.items() if name != "rows"}


def _with_part(state: _PartState, problems: tuple[str, ...]) -> tuple[_PartState, tuple[str, ...]]:
    """Return `state` without bounds of the time that are none, and a sentence for each."""
    for name in ("since", "until"):
        value = getattr(state, name)
        if value and moment_in(value) is None:
            shown = shortened(value, limit=_SHOWN_LENGTH)
            like = "2026-01-31 or 2026-01-31T02:30 (UTC)"
            wrong = f"The URL asks for {name} {shown!r}, which is no time like {like}"
            problems = (*problems, f"{wrong}; that end is left open.")
            state = dataclasses.replace(state, **{name: ""})
    since, until = moment_in(state.since), end_in(state.until)
    if since is not None and until is not None and since >= until:
        wrong = f"The URL asks for times since {state.since} and until {state.until}"
        problems = (*problems, f"{wrong}, between which nothing lies; all are drawn.")
        state = dataclasses.replace(state, since="", until="")
    return state, problems


def _parse(
    kind: type[_State], params: Mapping[str, str], allowed: Mapping[str, tuple[str, ...]]
) -> tuple[_State, tuple[str, ...]]:
    names = [item.name for item in dataclasses.fields(kind)]
    values: dict[str, str] = {}
    problems = []
    for name, value in params.items():
        shown = shortened(value, limit=_SHOWN_LENGTH)
        if name not in names:
            known = shortened(name, limit=_SHOWN_LENGTH)
            problems.append(
                f"The URL has a parameter {known!r} that this page does not know;"
                f" it is ignored. Known: {', '.join(names) or 'none'}."
            )
        elif value and value not in allowed.get(name, (value,)):
            problems.append(
                f"The URL asks for {name} {shown!r}, which does not exist;"
                f" the default is shown. Allowed: {', '.join(allowed[name])}."
            )
        elif value:
            values[name] = value
    return kind(**values), tuple(problems)
