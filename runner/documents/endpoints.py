"""The endpoints: one table for routes, the OpenAPI document and tools of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.alerts.annotations import load_annotations
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.findings import FINDING_CODES
from compile_hud.db.records.metrics import CACHES, COLD, MAX_EXPECTED_CALLS
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Phase
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.store import Store
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE
from compile_hud.runner.analysis.trends.records import DIMENSIONS, TREND_METRICS
from compile_hud.runner.analysis.trends.trends import TREND_MODES, range_start
from compile_hud.runner.documents import shapes
from compile_hud.runner.documents.alert_filters import ListFilters
from compile_hud.runner.documents.alerts import alert_document, find_alerts
from compile_hud.runner.documents.comparison import stored_comparison
from compile_hud.runner.documents.filtered.modes import ModeFilters, load_modes
from compile_hud.runner.documents.filtered.trends import (
    TrendFilters,
    load_trends,
    trends_document,
)
from compile_hud.runner.documents.kernels import kernels_json
from compile_hud.runner.documents.pairs.kernels import stored_kernel_diff
from compile_hud.runner.documents.pairs.releases import list_releases, stored_release
from compile_hud.runner.documents.parameters import Parameter
from compile_hud.runner.documents.results import (
    case_document,
    findings_json,
    load_kernels,
    result_summaries,
    run_document,
)
from compile_hud.runner.documents.run_lists import list_runs
from compile_hud.runner.documents.schemas import ResponseObject
from compile_hud.runner.documents.series import (
    machines_json,
    metrics_json,
    models_json,
    points_json,
)
from compile_hud.runner.documents.stored_runs import find_run

PREFIX = "/api/v1"
_MAX_LIMIT = 1000
# No store has a million runs, and a database refuses numbers of more than 64 bits.
_MAX_OFFSET = 1_000_000
_ALL_STATES = "all"
_SHOWN = "shown"
_DEFAULT_DAYS = 90
# torch.compile is younger.
_MAX_DAYS = 9999
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSource:
    """The store, the clock, and the address of the dashboard that links to its pages begin with."""

    store: Store
    now: Callable[[], datetime]
    dashboard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of a list, and the offset of the next ones, None at its end."""

    items: list[dict[str, Any]]
    next_offset: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the page as a JSON object."""
        return {"items": self.items, "next_offset": self.next_offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One path below PREFIX; `read` returns a JSON object, or a Page of a list.

    `name` is its operation in OpenAPI, and the tool of agents. An object that `is_dated` changes
    with the day too, and not only with the store.
    """

    name: str
    path: str
    summary: str
    read: Callable[[EndpointSource, Values], dict[str, Any] | Page]
    shape: ResponseObject
    parameters: tuple[Parameter, ...] = ()
    is_list: bool = False
    is_dated: bool = False

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters, those of paging too."""
        return (*self.parameters, *(_PAGING if self.is_list else ()))


_PAGING = (
    Parameter(
        name="limit",
        description=f"The number of items, at most {_MAX_LIMIT}.",
        kind=int,
        default=20,
        bounds=(1, _MAX_LIMIT),
        example=20,
    ),
    Parameter(
        name="offset",
        description="The number of items to skip: `next_offset` of the page before.",
        kind=int,
        default=0,
        bounds=(0, _MAX_OFFSET),
        example=0,
    ),
)
_RUN_WORDS = "An id, the start of one, `latest`, `previous`, a revision or a commit of torch"
_RUN = Parameter(name="run", description=f"{_RUN_WORDS}.", example="latest", is_in_path=True)
_CASE = Parameter(
    name="case",
    description="The key of a case, a part of one, or a glob. Its slashes need no escape.",
    example="bert/inference/full/fp32/default/cpu",
    is_in_path=True,
)
_BOTH_RUNS = (
    Parameter(
        name="baseline",
        description=f"The run before. {_RUN_WORDS}.",
        example="latest",
        is_required=True,
    ),
    Parameter(
        name="candidate",
        description=f"The run after. {_RUN_WORDS}.",
        example="latest",
        is_required=True,
    ),
)
_CASES = Parameter(
    name="case", description="Cases: a key, a part of one, or a glob.", example="bert", default=""
)


def _text(name: str, description: str, example: str, **options: Any) -> Parameter:
    return Parameter(name=name, description=description, example=example, **options)


def _page(items: list[dict[str, Any]], values: Values) -> Page:
    """Return the page of a whole list that `values` selects."""
    first, limit = values["offset"], values["limit"]
    end = first + limit
    return Page(items=items[first:end], next_offset=end if len(items) > end else None)


def _runs(source: EndpointSource, values: Values) -> Page:
    # One more shows whether there is another page.
    end = values["offset"] + values["limit"]
    filters = {name: values[name] for name in ("machine", "suite", "toolchain")}
    runs = list_runs(source.store, limit=end + 1, filters=filters)
    return _page(runs, values)


def _run(source: EndpointSource, values: Values) -> dict[str, Any]:
    return find_run(values["run"], store=source.store).to_json()


def _document(source: EndpointSource, values: Values) -> dict[str, Any]:
    return run_document(source.store, values["run"])


def _results(source: EndpointSource, values: Values) -> Page:
    return _page(result_summaries(source.store, values["run"], case_name=values["case"]), values)


def _result(source: EndpointSource, values: Values) -> dict[str, Any]:
    return case_document(source.store, values["run"], values["case"])


def _kernels(source: EndpointSource, values: Values) -> dict[str, Any]:
    return kernels_json(*load_kernels(source.store, values["run"], values["case"]))


def _findings(source: EndpointSource, values: Values) -> Page:
    items = findings_json(
        source.store, values["run"], codes=values["code"], case_name=values["case"]
    )
    return _page(items, values)


def _alerts(source: EndpointSource, values: Values) -> Page:
    names = values["state"] or tuple(map(str, ONGOING))
    states = None if _ALL_STATES in names else [AlertState(name) for name in names]
    filters = ListFilters(
        event_id=values["event"],
        **{name: values[name] for name in _ALERT_FILTERS},
    )
    alerts = find_alerts(source.store, filters, states=states)
    first, end = values["offset"], values["offset"] + values["limit"]
    # The causes of an alert take longer to read than the alert.
    items = alerts_json(alerts[first:end], store=source.store, dashboard=source.dashboard)
    return Page(items=items, next_offset=end if len(alerts) > end else None)


def _alert(source: EndpointSource, values: Values) -> dict[str, Any]:
    return alert_document(source.store, values["alert"], dashboard=source.dashboard)


def _series(source: EndpointSource, values: Values) -> Page:
    points = points_json(
        source.store,
        values["case"],
        metric=values["metric"],
        machine=values["machine"],
        toolchain=values["toolchain"],
    )
    return _page(points, values)


def _models(source: EndpointSource, values: Values) -> Page:
    return _page(models_json(source.store), values)


def _machines(source: EndpointSource, values: Values) -> Page:
    return _page(machines_json(source.store), values)


def _metrics(_source: EndpointSource, values: Values) -> Page:
    return _page(metrics_json(), values)


def _comparison(source: EndpointSource, values: Values) -> dict[str, Any]:
    return stored_comparison(
        source.store, values["baseline"], values["candidate"], fail_above=values["fail_above"]
    )


def _kernel_diff(source: EndpointSource, values: Values) -> dict[str, Any]:
    case = values["case"]
    return stored_kernel_diff(
        source.store,
        baseline=(values["baseline"], case),
        candidate=(values["candidate"], values["candidate_case"] or case),
    )


def _modes(source: EndpointSource, values: Values) -> dict[str, Any]:
    filters = ModeFilters(
        cache=values["cache"],
        calls=values["calls"],
        **{name: values[name] or None for name in _MODE_FILTERS},
    )
    return load_modes(source.store, filters).to_json()


def _trends(source: EndpointSource, values: Values) -> dict[str, Any]:
    filters = TrendFilters(
        since=range_start(source.now(), num_days=values["days"]),
        until=None,
        metrics=values["metric"],
        modes=values["mode"],
        **{name: values[name] or None for name in _TREND_FILTERS},
    )
    return trends_document(load_trends(source.store, filters), filters)


def _annotations(source: EndpointSource, values: Values) -> Page:
    annotations = load_annotations(source.store, with_removed=values["state"] == _ALL_STATES)
    return _page([item.to_json() for item in annotations], values)


def _releases(source: EndpointSource, values: Values) -> Page:
    return _page(list_releases(source.store), values)


def _release(source: EndpointSource, values: Values) -> dict[str, Any]:
    return stored_release(source.store, (values["baseline"], values["candidate"]))


_ALERT_FILTERS = ("model", "mode", "severity", "machine", "owner", "text")
_SCOPE = (
    _text("machine", "Default: that of the newest run.", "box"),
    _text("toolchain", "Default: that of the newest result on the machine.", "stable"),
)
_CASE_FILTERS = (
    _text("model", "Models, as a glob.", "b*"),
    _text("phase", "One phase.", "inference", choices=tuple(map(str, Phase))),
    _text("shape", "Shapes, as a glob.", "*"),
)
_MODE_FILTERS = tuple(item.name for item in (*_SCOPE, *_CASE_FILTERS))
_TRENDS = (
    *_SCOPE,
    *_CASE_FILTERS,
    _text("family", "Families, as a glob.", "*"),
    _text("dtype", "Number formats, as a glob.", "fp32"),
    _text("device", "Devices, as a glob.", "cpu"),
    _text("by", "A trend for each value of a dimension.", "model", choices=DIMENSIONS),
)
_TREND_FILTERS = tuple(item.name for item in _TRENDS)
_ALERTS = (
    _text(
        "state",
        "Alerts in this state; may be repeated. Default: open and acknowledged.",
        "open",
        choices=(_ALL_STATES, *map(str, AlertState)),
        is_repeated=True,
    ),
    _text("event", "All alerts of this event: its id, or the start of one.", "event-1"),
    _text("model", "Alerts of these models, as a glob.", "bert*"),
    _text("mode", "Alerts of these modes or variants, as a glob.", "default"),
    _text("severity", "Alerts of this severity.", "major", choices=tuple(map(str, Severity))),
    _text("machine", "Alerts of these machines, as a glob.", "box*"),
    _text("owner", "Alerts owned by this person.", "ada"),
    _text("text", "Alerts that have each of these words.", "bert latency"),
)
ENDPOINTS = (
    Endpoint(
        name="list_runs",
        path="/runs",
        summary="The runs, newest first",
        read=_runs,
        shape=shapes.RUN_ITEM,
        is_list=True,
        parameters=(
            _text("machine", "Runs on the machine of this name.", "box", default=""),
            _text("suite", "Runs of the suite of this name.", "nightly", default=""),
            _text("toolchain", "Runs in the toolchain of this name.", "stable", default=""),
        ),
    ),
    Endpoint(
        name="show_run",
        path="/runs/{run}",
        summary="One run, with its environment and its plan",
        read=_run,
        shape=shapes.RUN,
        parameters=(_RUN,),
    ),
    Endpoint(
        name="show_document",
        path="/runs/{run}/document",
        summary="One run with all its results, samples, kernels and findings",
        read=_document,
        shape=shapes.DOCUMENT,
        parameters=(_RUN,),
    ),
    Endpoint(
        name="list_results",
        path="/runs/{run}/results",
        summary="The results of a run without samples and kernels, in the order of its plan",
        read=_results,
        shape=shapes.RESULT_ITEM,
        is_list=True,
        parameters=(_RUN, _CASES),
    ),
    Endpoint(
        name="show_kernels",
        path="/runs/{run}/results/{case}/kernels",
        summary="The kernels of a result, the longest first",
        read=_kernels,
        shape=shapes.KERNELS,
        parameters=(_RUN, _CASE),
    ),
    Endpoint(
        name="show_result",
        path="/runs/{run}/results/{case}",
        summary="One result whole: samples, kernels, warnings and findings",
        read=_result,
        shape=shapes.DOCUMENT,
        parameters=(_RUN, _CASE),
    ),
    Endpoint(
        name="list_findings",
        path="/findings",
        summary="The findings of a run, in the order of its plan",
        read=_findings,
        shape=shapes.FINDING,
        is_list=True,
        parameters=(
            _text("run", f"{_RUN_WORDS}.", "latest", default="latest"),
            _text(
                "code",
                "Findings of this code; may be repeated.",
                "graph-break",
                choices=FINDING_CODES,
                is_repeated=True,
            ),
            _CASES,
        ),
    ),
    Endpoint(
        name="list_alerts",
        path="/alerts",
        summary="The alerts, improvements too, the worst first",
        read=_alerts,
        shape=shapes.ALERT_ITEM,
        is_list=True,
        parameters=_ALERTS,
    ),
    Endpoint(
        name="show_alert",
        path="/alerts/{alert}",
        summary="One alert with all its changes",
        read=_alert,
        shape=shapes.ALERT,
        parameters=(
            _text("alert", "The id of an alert, or the start of one.", "alert-1", is_in_path=True),
        ),
    ),
    Endpoint(
        name="list_points",
        path="/series",
        summary="The points of one metric of one case, oldest first",
        read=_series,
        shape=shapes.POINT,
        is_list=True,
        parameters=(
            _text("case", "The key of a case.", str(_CASE.example), is_required=True),
            _text("metric", "The name of a metric.", "latency_s", is_required=True),
            _text("machine", "Default: that of the newest point.", "box", default=""),
            _text("toolchain", "Default: every toolchain.", "stable", default=""),
        ),
    ),
    Endpoint(
        name="list_models",
        path="/models",
        summary="The models with results, and the machines and toolchains that measured them",
        read=_models,
        shape=shapes.MODEL,
        is_list=True,
    ),
    Endpoint(
        name="list_machines",
        path="/machines",
        summary="The machines and toolchains with results",
        read=_machines,
        shape=shapes.MACHINE,
        is_list=True,
    ),
    Endpoint(
        name="list_metrics",
        path="/metrics",
        summary="The metrics, with their units and directions",
        read=_metrics,
        shape=shapes.METRIC,
        is_list=True,
    ),
    Endpoint(
        name="compare_runs",
        path="/compare",
        summary="Two stored runs side by side, as `hud compare` compares them",
        read=_comparison,
        shape=shapes.COMPARISON,
        parameters=(
            *_BOTH_RUNS,
            Parameter(
                name="fail_above",
                description="The smallest change that is relevant, as a fraction.",
                kind=float,
                default=DEFAULT_FAIL_ABOVE,
                bounds=(0.0001, 0.9999),
                example=DEFAULT_FAIL_ABOVE,
            ),
        ),
    ),
    Endpoint(
        name="compare_kernels",
        path="/kernels/diff",
        summary="The kernels that changed between two results, and why",
        read=_kernel_diff,
        shape=shapes.KERNEL_DIFF,
        parameters=(
            *_BOTH_RUNS,
            _text(
                "case",
                "The case: its key, a part of one, or a glob.",
                str(_CASE.example),
                is_required=True,
            ),
            _text(
                "candidate_case",
                "The case of the run after. Default: the same.",
                str(_CASE.example),
            ),
        ),
    ),
    Endpoint(
        name="compare_modes",
        path="/modes",
        summary="The mode to ship for each phase and shape, as `hud modes` recommends it",
        read=_modes,
        shape=shapes.MODES,
        parameters=(
            *_SCOPE,
            *_CASE_FILTERS,
            _text(
                "cache",
                "The compile cache that a process begins with: empty or filled.",
                COLD,
                choices=CACHES,
                default=COLD,
            ),
            Parameter(
                name="calls",
                description="The expected calls per process. Default: many.",
                kind=int,
                bounds=(1, MAX_EXPECTED_CALLS),
                example=10_000,
            ),
        ),
    ),
    Endpoint(
        name="show_trends",
        path="/trends",
        summary="Each mode over time: speedup, pass rate, compile time, memory and energy",
        read=_trends,
        shape=shapes.TRENDS,
        is_dated=True,
        parameters=(
            Parameter(
                name="days",
                description="The range: the days until now.",
                kind=int,
                default=_DEFAULT_DAYS,
                bounds=(1, _MAX_DAYS),
                example=_DEFAULT_DAYS,
            ),
            _text(
                "metric",
                "Trends of this metric; may be repeated. Default: all.",
                "speedup",
                choices=TREND_METRICS,
                is_repeated=True,
            ),
            _text(
                "mode",
                "Trends of this mode; may be repeated. Default: all.",
                "default",
                choices=TREND_MODES,
                is_repeated=True,
            ),
            *_TRENDS,
        ),
    ),
    Endpoint(
        name="list_annotations",
        path="/annotations",
        summary="The notes about dates, by date",
        read=_annotations,
        shape=shapes.ANNOTATION,
        is_list=True,
        parameters=(
            _text(
                "state",
                "The removed ones as well, or only those that trends show.",
                _ALL_STATES,
                choices=(_SHOWN, _ALL_STATES),
                default=_SHOWN,
            ),
        ),
    ),
    Endpoint(
        name="list_releases",
        path="/releases",
        summary="The releases of toolchains that `hud release` measured, newest first",
        read=_releases,
        shape=shapes.RELEASE_ITEM,
        is_list=True,
    ),
    Endpoint(
        name="show_release",
        path="/releases/report",
        summary="The report of the newest release from one toolchain to another",
        read=_release,
        shape=shapes.RELEASE,
        parameters=(
            _text("baseline", "The toolchain before.", "stable", is_required=True),
            _text("candidate", "The toolchain that may replace it.", "next", is_required=True),
        ),
    ),
)
