"""The state of a page is its URL: parse it at the edge, build links to it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.kernels import KINDS, LIBRARIES
from compile_hud.db.records.results import Dtype, Phase, Verdict
from compile_hud.db.shared.text import shortened

# How a moment stands in a URL: to the minute, in UTC.
_MOMENT_FORM = "%Y-%m-%dT%H:%M"
_DATE_FORM = "%Y-%m-%d"
# The metrics that the overview can compare models and modes by; all others are on the case's pages.
OVERVIEW_METRICS = ("speedup", "latency_s", "compile_cold_s", "compile_warm_s", "peak_bytes")
DEFAULT_SERIES_METRIC = "latency_s"
# Whether a process finds what it compiled before: that is what it pays for its mode.
CACHES = COLD, WARM = ("cold", "warm")
# What alerts about a case that fails or vanished have for a metric; any trend shows where it ends.
OUTCOME = "outcome"
# In place of one state of the alerts page.
ALL_STATES = "all"
# Of a parameter that is there or not.
YES = "yes"
# Of a long table, of which the first rows are shown else.
ALL_ROWS = "all"
# The study that the page shows first.
DEFAULT_STUDY = "families"
# Longer values are an accident, and not worth a page of text.
_SHOWN_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseState:
    """Which of the latest results a page shows; an empty filter lets everything through.

    `machine` and `toolchain` are the exceptions: numbers of two machines or of two toolchains are
    never in one table, so empty means the machine of the latest run, and the toolchain of the
    latest result there. `rows` says how many rows of a long table are shown.
    """

    machine: str = ""
    toolchain: str = ""
    device: str = ""
    phase: str = ""
    dtype: str = ""
    shape: str = ""
    model: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewState(CaseState):
    """What the overview shows; an empty metric means the speedup, or latencies without one."""

    metric: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesState(CaseState):
    """What the page of modes shows; `cache` is the compile time that counts."""

    cache: str = COLD


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsState(CaseState):
    """What the page of models shows; `text` is in name, family or summary."""

    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesState:
    """What the series page shows; an empty result means the latest one.

    `since` and `until` are the part of the time that is drawn (`moment_in`), `raw` whether
    single samples are drawn beside their points, `rows` how many points are listed.
    """

    case: str = ""
    metric: str = DEFAULT_SERIES_METRIC
    machine: str = ""
    toolchain: str = ""
    result: str = ""
    since: str = ""
    until: str = ""
    raw: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPageState:
    """What the run page shows; an empty run means the latest one.

    `samples` is the metric of the case whose samples are drawn, `rows` how many cases are listed.
    """

    run: str = ""
    case: str = ""
    samples: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsState:
    """What the kernels page shows: a case of a run, the latest one where it is empty.

    `kernel` is the id of the kernel that is opened (`kernel_id` in app/views/kernels/tables.py);
    `text`, `kind` and `library` let through what is in the table.
    """

    run: str = ""
    case: str = ""
    kernel: str = ""
    text: str = ""
    kind: str = ""
    library: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDiffState:
    """What the kernel diff compares: empty runs are the latest, an empty case the other side's.

    `change` lets one class of changes through; `row` is the number of the row that is opened.
    """

    baseline_run: str = ""
    baseline_case: str = ""
    candidate_run: str = ""
    candidate_case: str = ""
    change: str = ""
    row: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareState:
    """What is compared with what, and which rows are shown.

    A run is an id, the unique start of one, `latest` or a revision; an empty candidate is the
    newest run that has ended, an empty baseline the run before the candidate. With two different
    variants the one is compared with the other, with one named alone it is the variant of both.
    """

    baseline: str = ""
    candidate: str = ""
    baseline_variant: str = ""
    candidate_variant: str = ""
    metric: str = ""
    model: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsState:
    """What the list of runs shows, and how many of them."""

    machine: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudiesState:
    """Which study is shown."""

    study: str = DEFAULT_STUDY


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsState:
    """What the alerts page shows: one alert, one event, or all events in some state.

    An event is in each state that an alert of it is in; empty are the ongoing ones.
    """

    alert: str = ""
    event: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """The page of health has nothing to choose."""


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
    | RunsState
    | StudiesState
    | AlertsState
    | HealthState
    | SettingsState
)
_State = TypeVar("_State", bound=_AnyState)
_CaseState = TypeVar("_CaseState", bound=CaseState)
_CASE_PAGES: Mapping[type, str] = {OverviewState: "./", ModesState: "modes", ModelsState: "models"}


def parse_overview(params: Mapping[str, str]) -> tuple[OverviewState, tuple[str, ...]]:
    """Return the overview's state and a sentence for each parameter that was not understood."""
    allowed = {
        "phase": tuple(Phase),
        "dtype": tuple(Dtype),
        "metric": OVERVIEW_METRICS,
        "rows": (ALL_ROWS,),
    }
    return _parse(OverviewState, params, allowed)


def parse_modes(params: Mapping[str, str]) -> tuple[ModesState, tuple[str, ...]]:
    """Return the state of the page of modes and a sentence for each parameter not understood."""
    allowed = {
        "phase": tuple(Phase),
        "dtype": tuple(Dtype),
        "cache": CACHES,
        "rows": (ALL_ROWS,),
    }
    return _parse(ModesState, params, allowed)


def parse_models(params: Mapping[str, str]) -> tuple[ModelsState, tuple[str, ...]]:
    """Return the state of the page of models and a sentence for each parameter not understood."""
    allowed = {"phase": tuple(Phase), "dtype": tuple(Dtype), "rows": (ALL_ROWS,)}
    return _parse(ModelsState, params, allowed)


def parse_series(params: Mapping[str, str]) -> tuple[SeriesState, tuple[str, ...]]:
    """Return the series page's state and a sentence for each parameter not understood."""
    # Imported histories bring metrics of their own, so any name may be right.
    state, problems = _parse(SeriesState, params, {"raw": (YES,), "rows": (ALL_ROWS,)})
    if state.metric == OUTCOME:
        state = dataclasses.replace(state, metric=DEFAULT_SERIES_METRIC)
    for name in ("since", "until"):
        value = getattr(state, name)
        if value and moment_in(value) is None:
            shown = shortened(value, limit=_SHOWN_LENGTH)
            like = "2026-01-31 or 2026-01-31T02:30 (UTC)"
            wrong = f"The URL asks for {name} {shown!r}, which is no time like {like}"
            problems = (*problems, f"{wrong}; that end is left open.")
            state = dataclasses.replace(state, **{name: ""})
    since, until = moment_in(state.since), moment_in(state.until)
    if since is not None and until is not None and since >= until:
        wrong = f"The URL asks for times since {state.since} and until {state.until}"
        problems = (*problems, f"{wrong}, between which nothing lies; all are drawn.")
        state = dataclasses.replace(state, since="", until="")
    return state, problems


def parse_run(params: Mapping[str, str]) -> tuple[RunPageState, tuple[str, ...]]:
    """Return the run page's state and a sentence for each parameter not understood."""
    return _parse(RunPageState, params, {"rows": (ALL_ROWS,)})


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


def parse_runs(params: Mapping[str, str]) -> tuple[RunsState, tuple[str, ...]]:
    """Return the runs page's state and a sentence for each parameter not understood."""
    return _parse(RunsState, params, {"rows": (ALL_ROWS,)})


def parse_studies(
    params: Mapping[str, str], *, studies: tuple[str, ...]
) -> tuple[StudiesState, tuple[str, ...]]:
    """Return the state of the page of studies and a sentence for each parameter not understood."""
    return _parse(StudiesState, params, {"study": studies})


def parse_alerts(params: Mapping[str, str]) -> tuple[AlertsState, tuple[str, ...]]:
    """Return the alerts page's state and a sentence for each parameter not understood."""
    return _parse(AlertsState, params, {"state": (ALL_STATES, *AlertState)})


def parse_health(params: Mapping[str, str]) -> tuple[HealthState, tuple[str, ...]]:
    """Return the state of a page without choices and a sentence for each parameter."""
    return _parse(HealthState, params, {})


def parse_settings(params: Mapping[str, str]) -> tuple[SettingsState, tuple[str, ...]]:
    """Return the state of a page without choices and a sentence for each parameter."""
    return _parse(SettingsState, params, {})


def overview_url(state: OverviewState) -> str:
    """Return the relative URL of the overview in `state`."""
    return _url("./", state)


def cases_url(state: CaseState) -> str:
    """Return the relative URL of the page of the latest results whose state this is."""
    return _url(_CASE_PAGES[type(state)], state)


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

    `part` is the part of the time that is drawn (`moment_out`).
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


def run_url(run_id: str, *, case_key: str = "", samples: str = "") -> str:
    """Return the relative URL of a run, with one of its cases opened when it is named.

    `samples` names the metric whose samples are drawn as well.
    """
    return _url("run", RunPageState(run=run_id, case=case_key, samples=samples))


def kernels_url(run_id: str, *, case_key: str = "", kernel: str = "") -> str:
    """Return the relative URL of the kernels of a case, with one of them opened when it is named.

    Without a case the page lists those of the run that have kernels.
    """
    return _url("kernels", KernelsState(run=run_id, case=case_key, kernel=kernel))


def trace_url(result_id: str) -> str:
    """Return the relative URL of the trace of a result, a file to download."""
    return f"traces/{quote(result_id, safe='')}"


def perfetto_url(result_id: str) -> str:
    """Return the relative URL of the page that hands the trace of a result to Perfetto."""
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


def swapped(state: KernelDiffState) -> KernelDiffState:
    """Return `state` with baseline and candidate changed over."""
    return dataclasses.replace(
        state,
        baseline_run=state.candidate_run,
        baseline_case=state.candidate_case,
        candidate_run=state.baseline_run,
        candidate_case=state.baseline_case,
    )


def decide_url(alert_id: str) -> str:
    """Return the relative URL of the page on which people decide about an alert."""
    return _url("alerts", AlertsState(alert=alert_id))


def alerts_url(state: AlertsState) -> str:
    """Return the relative URL of the alerts in `state`."""
    return _url("alerts", state)


def event_url(event_id: str) -> str:
    """Return the relative URL of the page on which people decide about all alerts of an event."""
    return _url("alerts", AlertsState(event=event_id))


def without(state: _CaseState, *names: str) -> _CaseState:
    """Return `state` with the named filters at their defaults."""
    defaults: dict[str, Any] = dict.fromkeys(names, "")
    return dataclasses.replace(state, **defaults)


def moment_in(text: str) -> datetime | None:
    """Return the moment that a URL names, of a date its midnight; None where it names none."""
    if not text.isascii():
        # strptime takes the digits of every script.
        return None
    for form in (_MOMENT_FORM, _DATE_FORM):
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    return None


def moment_out(at: datetime) -> str:
    """Return a moment as it stands in a URL."""
    return f"{at:%Y-%m-%dT%H:%M}"


def query_params(state: _AnyState) -> dict[str, str]:
    """Return the URL parameters of `state`, those at their defaults left out."""
    return {
        item.name: value
        for item in dataclasses.fields(state)
        if (value := getattr(state, item.name)) != item.default
    }


def _url(page: str, state: _AnyState) -> str:
    # As `urlencode` does; the names of our parameters are plain words.
    params = "&".join(f"{name}={_quoted(value)}" for name, value in query_params(state).items())
    return f"{page}?{params}" if params else page


# A table of a thousand cases leads to each of them with the same words again and again.
@functools.lru_cache(maxsize=2048)
def _quoted(word: str) -> str:
    return quote_plus(word)


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
