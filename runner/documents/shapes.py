"""The objects that the API sends, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from compile_hud.db.alerts.annotations import Annotation
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import Case, Run, RunState
from compile_hud.db.records.summaries import ResultSummary, Scope, TrendPoint
from compile_hud.runner.documents.schemas import ResponseObject

# Its fields are not described.
Object = dict[str, Any]
RUN = ResponseObject(name="Run", description="A run with its environment and its plan.", record=Run)
RUN_ITEM = ResponseObject(
    name="RunItem",
    description="A run without its plan, with the number of results by outcome.",
    record=Run,
    without=("plan",),
    has={"num_planned": int, "outcomes": Mapping[str, int]},
)
DOCUMENT = ResponseObject(
    name="RunDocument",
    description="A run with results, each with its findings. `hud compare` reads it as a file.",
    has={"schema_version": int, "run": Run, "results": list[Object]},
)
RESULT_ITEM = ResponseObject(
    name="ResultItem", description="A result without samples and kernels.", record=ResultSummary
)
KERNELS = ResponseObject(
    name="Kernels",
    description="The kernels of a result, with the parts of an iteration.",
    has={
        "run_id": str,
        "result_id": str,
        "case": Case,
        "profile": Object | None,
        "kernels": list[Object],
        "warnings": list[Object],
    },
)
FINDING = ResponseObject(
    name="Finding",
    description="A cause of extra time in a result; `cost_s` is None where it was not measured.",
    record=Finding,
    has={"run_id": str, "result_id": str, "case": str},
)
_ALERT_FIELDS = {
    "id": str,
    "state": str,
    "verdict": str,
    "kind": str,
    "model": str,
    "variant": str,
    "machine": str,
    "toolchain": str,
    "metric": str,
    "unit": str,
    "baseline": float | None,
    "candidate": float | None,
    "change_pct": float | None,
    "event": Object | None,
    "repro": str,
    "url": str,
}
ALERT_ITEM = ResponseObject(
    name="AlertItem",
    description="An alert, as webhooks send it.",
    has=_ALERT_FIELDS,
)
ALERT = ResponseObject(
    name="Alert",
    description="An alert with the diff of its model's code and all its changes.",
    has={**_ALERT_FIELDS, "model_code": Object | None, "changes": list[Object]},
)
POINT = ResponseObject(
    name="Point", description="One measurement in a series, in SI units.", record=TrendPoint
)
MODEL = ResponseObject(
    name="Model",
    description="A model with results, and where it was measured.",
    has={"name": str, "measured_on": list[Object]},
)
MACHINE = ResponseObject(
    name="Machine", description="A machine and a toolchain with results.", record=Scope
)
METRIC = ResponseObject(
    name="Metric",
    description="A metric; `relevance_floor` is the smallest relevant change, as a fraction.",
    has={
        "name": str,
        "unit": str,
        "direction": str,
        "relevance_floor": float,
        "judged": bool,
        "description": str,
    },
)
COMPARISON = ResponseObject(
    name="Comparison",
    description="Two runs side by side: a row for each metric of each case.",
    has={
        "baseline": Object,
        "candidate": Object,
        "environment": list[Object],
        "model_code_changes": list[Object],
        "failed": bool,
        "noise": Mapping[str, int],
        "resolution": list[Object],
        "rows": list[Object],
        "memory": list[Object],
        "machine": list[Object],
    },
)
MODES = ResponseObject(
    name="Modes",
    description="The modes for each phase and shape: the recommendation, and its numbers.",
    has={
        "machine": str,
        "toolchain": str,
        "cache": str,
        "calls": int | None,
        "min_gain": float,
        "title": str,
        "groups": list[Object],
    },
)
KERNEL_DIFF = ResponseObject(
    name="KernelDiff",
    description="The changed kernels of two results, in microseconds per iteration.",
    has={
        "basis": str,
        "baseline_us": float,
        "candidate_us": float,
        "change_us": float,
        "explained_us": float,
        "unexplained_us": float,
        "unexplained": str,
        "noise": str,
        "warnings": Mapping[str, list[Object]],
        "parts": list[Object],
        "rollup": Object,
        "rows": list[Object],
        "memory": Object | None,
        "devices": str,
        "baseline": Object,
        "candidate": Object,
    },
)
TRENDS = ResponseObject(
    name="Trends",
    description=(
        "Each mode over time, with the events that trends mark. All metrics and modes of 90 days"
        " are a long object: select some."
    ),
    has={
        "since": str,
        "until": str | None,
        "machine": str,
        "toolchain": str,
        "runs": list[Object],
        "trends": list[Object],
        "marks": list[Object],
    },
)
ANNOTATION = ResponseObject(
    name="Annotation",
    description="A note about a date; `pattern` is a glob of the series that it concerns.",
    record=Annotation,
)
# The sides of the first machine, and the runs of every machine.
_RELEASE_SIDES = {"baseline": Object, "candidate": Object, "machines": list[Object]}
RELEASE_ITEM = ResponseObject(
    name="ReleaseItem",
    description="The runs of a release; `fail_above` is the smallest relevant change.",
    has={
        **_RELEASE_SIDES,
        "started_at": datetime,
        "state": RunState,
        "fail_above": float,
        "max_launches": int,
    },
)
RELEASE = ResponseObject(
    name="Release",
    description="The answer to a release, with its regressions by what they have in common.",
    has={
        "schema_version": int,
        "sign_off": Object,
        **_RELEASE_SIDES,
        "commits_url": str | None,
        "environment": list[Object],
        "clusters": list[Object],
        "undecided": list[str],
        "failing": list[str],
        "improvements": list[str],
        "rows": list[Object],
    },
)
