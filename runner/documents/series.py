"""The series, models and machines of a store, and the metrics, as JSON."""

from __future__ import annotations

from typing import Any

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.latest import load_model_places, load_scopes
from compile_hud.db.queries.series import find_series, load_trend
from compile_hud.db.records.codec import encode
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.summaries import SeriesHeader
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import near_names


def points_json(
    store: Store, case_key: str, *, metric: str, machine: str, toolchain: str
) -> list[dict[str, Any]]:
    """Return every point of a metric of a case, oldest first.

    The machine is by default that of the newest point, and the points are of every toolchain.
    Raises NotFoundError for a case or metric without a point.
    """
    headers = find_series(store, case_key=case_key, metric=metric)
    if not headers:
        raise _no_series(store, case_key, metric=metric)
    newest = max(headers, key=lambda header: header.last_at)
    points = load_trend(
        store,
        case_key=case_key,
        metric=metric,
        machine=machine or newest.machine,
        toolchain=toolchain or None,
    )
    return [encode(point) for point in points]


def models_json(store: Store) -> list[dict[str, Any]]:
    """Return each model with a result, with its machines and toolchains, by name."""
    places = load_model_places(store)
    return [
        {
            "name": model,
            "measured_on": [
                {"machine": machine, "toolchain": toolchain} for machine, toolchain in places[model]
            ],
        }
        for model in sorted(places)
    ]


def machines_json(store: Store) -> list[dict[str, Any]]:
    """Return each machine and toolchain with results, and when its newest run started."""
    return [encode(scope) for scope in load_scopes(store)]


def metrics_json() -> list[dict[str, Any]]:
    """Return every metric with its unit, its direction and the smallest relevant change."""
    return [
        {
            "name": row.name,
            "unit": row.unit,
            "direction": str(row.direction),
            "relevance_floor": row.relevance_floor,
            "judged": row.is_judged,
            "description": row.description,
        }
        for row in METRICS.values()
    ]


def _no_series(store: Store, case_key: str, *, metric: str) -> NotFoundError:
    of_case = find_series(store, case_key=case_key)
    typed, known = (metric, _metrics(of_case)) if of_case else (case_key, _cases(store))
    near = near_names(typed, known)
    hint = f" Did you mean {near}?" if near else ""
    return NotFoundError(
        f"no series of {metric!r} of {case_key!r}.{hint} `hud list metrics` lists the metrics, and"
        " `hud show latest` the cases",
        case=case_key,
        metric=metric,
    )


def _metrics(headers: tuple[SeriesHeader, ...]) -> list[str]:
    return sorted({header.metric for header in headers})


def _cases(store: Store) -> list[str]:
    return sorted({header.case.key for header in find_series(store)})
