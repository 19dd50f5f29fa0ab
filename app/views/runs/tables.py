"""One case result in full, as HTML. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from compile_hud.app.components.matrix.result_matrix import common_dimensions, effective_note
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui.format import (
    duration,
    outcome_label,
)
from compile_hud.app.ui.html import (
    Cell,
    HtmlColumn,
    Note,
    key_values,
    table,
    time_cell,
)
from compile_hud.db.records.imported import is_imported, was_timed
from compile_hud.db.records.memory.peak import MEMORY_PEAK
from compile_hud.db.records.results import Run, RunState, worked_seconds
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import runtime_text, significant

CASES_TOOK = "without what lies between them, as the start of the toolchain, and pauses of the run"
# Lists of sentences in a result's details, and their titles.
REASON_LISTS = (("cudagraph_skip_reasons", "CUDA graphs skipped"),)
# Lists of code locations: a reason with its file, line and function.
LOCATION_LISTS = (("graph_breaks", "Graph breaks"), ("recompiles", "Recompiles"))


def result_facts(result: ResultSummary) -> str:
    """Return the facts of the case and its outcome."""
    case = result.case
    ran = effective_note(case, result.effective_mode)
    pairs = [
        ("outcome", Cell(text=outcome_label(result.outcome))),
        ("phase", Cell(text=str(case.phase))),
        ("shape", Cell(text=case.shape)),
        ("dtype", Cell(text=str(case.dtype))),
        ("device", Cell(text=case.device)),
        ("backend", Cell(text=case.backend or "none")),
        ("mode", Cell(text=f"{case.mode} ({ran})" if ran else case.mode)),
        ("took", Cell(text=duration(result.took_s) if was_timed(result.details) else "not known")),
    ]
    if runtime := runtime_text(result.details):
        pairs.insert(-1, ("runtime", Cell(text=runtime)))
    return key_values(pairs)


def run_times(page: RunPage) -> list[tuple[str, Cell]]:
    """Return the start of a run, its duration, and the sum of its cases' durations."""
    run = page.run
    is_timed = bool(page.results) and not is_imported(run.toolchain)
    took_s = worked_seconds(
        run,
        took_s=sum(item.took_s for item in page.results),
        last_at=max((item.finished_at for item in page.results), default=run.started_at),
    )
    after = ""
    if is_timed and run.state is RunState.FINISHED and run.finished_at is not None:
        after = f"finished after {duration((run.finished_at - run.started_at).total_seconds())}"
    notes = (Note(text=after),) if after else ()
    return [
        ("started", time_cell(run.started_at, notes=notes)),
        ("cases took", Cell(text=duration(took_s) if is_timed else "-", title=CASES_TOOK)),
    ]


def run_dimensions(run: Run) -> list[tuple[str, Cell]]:
    """Return the dimensions that all models of a run share, and the name of its device."""
    models = [case for case in run.plan if not case.is_reference]
    common = common_dimensions(models or run.plan)
    pairs = [(name, Cell(text=value)) for name, value in common.items() if name != "device"]
    kind = common.get("device", "")
    name = str(run.environment.get("device_name") or kind)
    notes = (Note(text=kind),) if kind not in ("", name) else ()
    return [*pairs, ("device", Cell(text=name, notes=notes))] if name else pairs


def warning_table(result: ResultSummary) -> str:
    """Return the warnings, each with its remedy."""
    columns = (
        HtmlColumn(label=f"warnings: {len(result.warnings)}"),
        HtmlColumn(label="what it says"),
        HtmlColumn(label="what to do"),
    )
    rows = [
        (
            Cell(text=warning.code, style="strong"),
            Cell(text=warning.text, style="prose whole coded"),
            Cell(text=warning.hint, style="prose whole coded"),
        )
        for warning in result.warnings
    ]
    return table(columns, rows, label="warnings")


def location_tables(result: ResultSummary) -> list[tuple[str, Markup]]:
    """Return title and table of each list of code locations that the compiler reported."""
    tables = []
    for name, title in LOCATION_LISTS:
        places = [item for item in _list(result.details, name) if isinstance(item, Mapping)]
        if places:
            columns = (HtmlColumn(label="reason"), HtmlColumn(label="where"))
            rows = [
                (
                    Cell(text=str(item.get("reason", "")), style="prose whole"),
                    Cell(text=_location(item), style="prose"),
                )
                for item in places
            ]
            tables.append((f"{title}: {len(places)}", table(columns, rows, label=title.lower())))
    return tables


def accuracy_table(result: ResultSummary) -> str:
    """Return the distances of each output from the oracle, and eager's; "" without any."""
    accuracy = result.details.get("accuracy")
    parts = accuracy.get("parts") if isinstance(accuracy, Mapping) else None
    if not isinstance(parts, Mapping) or not parts:
        return ""
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    columns = [HtmlColumn(label="against the fp64 oracle")]
    columns += [HtmlColumn(label=name.replace("_", " "), is_number=True) for name in names]
    rows = [
        (Cell(text=str(part)), *(_distance(numbers.get(name), name) for name in names))
        for part, numbers in parts.items()
    ]
    return table(columns, rows, label="accuracy")


def tolerance_facts(result: ResultSummary) -> str:
    """Return the tolerances, and the spread of runs on the same inputs; "" without any."""
    pairs = []
    accuracy = result.details.get("accuracy")
    if isinstance(accuracy, Mapping) and isinstance(accuracy.get("tolerance"), Mapping):
        pairs += [
            (name.replace("_", " "), Cell(text=str(value)))
            for name, value in accuracy["tolerance"].items()
        ]
    for name in ("eager_nondeterminism", "variant_nondeterminism"):
        spread = result.details.get(name)
        if isinstance(spread, Mapping):
            text = ", ".join(
                f"{key.replace('_', ' ')} {significant(value)}"
                for key, value in spread.items()
                if isinstance(value, int | float)
            )
            pairs.append((name.replace("_", " "), Cell(text=text)))
    return key_values(pairs) if pairs else ""


def reasons(result: ResultSummary) -> list[tuple[str, list[str]]]:
    """Return the lists of reasons that are not empty, each with its title."""
    return [
        (title, [str(item) for item in texts])
        for name, title in REASON_LISTS
        if (texts := result.details.get(name))
    ]


def other_details(result: ResultSummary) -> dict[str, Any]:
    """Return the details that are shown unchanged."""
    listed = {name for name, _ in (*REASON_LISTS, *LOCATION_LISTS)} | {MEMORY_PEAK}
    return {name: value for name, value in result.details.items() if name not in listed}


def environment_table(environment: Mapping[str, Any]) -> Markup:
    """Return the facts of an environment, one a row; nested ones as JSON."""
    columns = (HtmlColumn(label="fact"), HtmlColumn(label="value"))
    rows = [
        (Cell(text=name), Cell(text=_fact_text(value), style="prose", title=_fact_text(value)))
        for name, value in sorted(environment.items())
    ]
    return table(columns, rows, label="environment")


def _list(details: Mapping[str, Any], name: str) -> list[Any]:
    value = details.get(name)
    return value if isinstance(value, list) else []


def _location(item: Mapping[str, Any]) -> str:
    """Return `file:line in function`, as far as it is known."""
    if not item.get("file"):
        return "not known"
    line = f":{item['line']}" if item.get("line") else ""
    function = f" in {item['function']}" if item.get("function") else ""
    return f"{item['file']}{line}{function}"


def _distance(value: Any, name: str) -> Cell:
    if not isinstance(value, int | float):
        return Cell(text="-", style="quiet")
    # The digits below 1 distinguish cosines.
    return Cell(text=f"{value:.7f}" if "cosine" in name else significant(value))


def _fact_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
