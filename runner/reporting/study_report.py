"""The report of a study: question, method, machine and results, as Markdown, text and JSON.

Each number has its interval and its device; a case without a number has its outcome. Published
figures name their own device and enter no computation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Outcome, Run, RunState
from compile_hud.db.shared.text import counted, counted_of, one_line
from compile_hud.runner.analysis.repro import command_line
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.study import Study, StudyResult, StudyRun, section_titles
from compile_hud.runner.analysis.studies.tables import (
    MissingNumber,
    PublishedComparison,
    StudyCell,
    StudyTable,
    compare_published,
    gaps,
    study_tables,
)
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.format import clock, quantity

# Counts from this number on are printed in full, with commas.
_LARGE_COUNT = 1000
_METHOD = (
    "Each case runs in fresh processes, eager and variant interleaved. A case that is not ok has "
    "its outcome and no number. [Reading a table](../studies.md#reading-a-table) explains the rest."
)
_PUBLISHED = (
    "Others measured these figures with other models, shapes and versions, on the devices "
    "named. They are for orientation: a difference between the two columns is no finding."
)
# Facts of the environment that affect a number, with their labels in the report.
_FACTS = (
    ("device", "device_name"),
    ("CPU", "cpu_model"),
    ("vector instructions", "cpu_capability"),
    ("driver", "driver_version"),
    ("CUDA", "cuda_version"),
    ("torch", "torch_version"),
    ("Python", "python_version"),
    ("C++ compiler", "cxx_compiler"),
    ("threads", "num_threads"),
)
# The warning of a case that shared its core.
_BUSY = "noisy-neighbour"
_PACKAGES = ("transformers", "diffusers", "triton", "onnxruntime", "openvino", "torch_tensorrt")


def study_page(study: Study, runs: Sequence[StudyRun]) -> str:
    """Return the page of `study` with a section for each of `runs`."""
    parts = [
        f"# {study.title}",
        study.question,
        f"Written by `hud study page {study.name}` from the runs named below.",
        _METHOD,
    ]
    titles = section_titles([item.run for item in runs])
    for run, title in zip(runs, titles, strict=True):
        parts += [f"## {title}", *_section(study, run)]
    return "\n\n".join(parts) + "\n"


def _section(study: Study, run: StudyRun) -> list[str]:
    parts = [_provenance(study, run)]
    if busy := _busy(run.results):
        parts.append(busy)
    for table in study_tables(study, run.results):
        parts += [f"### {table.title}", _table(table)]
    if published := compare_published(study, run.results):
        parts += ["### Published figures", _PUBLISHED, _published(published, run)]
    if missing := gaps(study, run):
        parts += ["### Missing numbers", _gaps(missing)]
    if warnings := _warnings(run.results):
        parts += ["### Warnings", warnings]
    return parts


def _provenance(study: Study, run: StudyRun) -> str:
    facts = run.run.environment
    rows = [(name, str(facts[key])) for name, key in _FACTS if facts.get(key) is not None]
    if run.device == "cpu":
        # The device already names the CPU.
        rows = [row for row in rows if row[0] != "CPU"]
    rows += [
        ("packages", _packages(facts)),
        ("measured", _when(run.run)),
        ("sampling", _sampling(facts)),
        ("shapes", _values(run, "shape")),
        ("dtypes", _values(run, "dtype")),
        ("phases", _values(run, "phase")),
        ("cases", _outcomes(run)),
        ("command", f"`{_command(study, run)}`, run `{run.run.id}`"),
    ]
    if run.run.is_synthetic:
        rows.insert(0, ("SYNTHETIC", "made up by `hud demo`: nothing here was measured"))
    return _markdown(("", ""), [(name, _escaped(text)) for name, text in rows if text])


def _command(study: Study, run: StudyRun) -> str:
    """Return the command that repeats the run; it names models and variants only if a subset."""
    selection = study.cases[run.device]
    options = [("device", run.device)]
    if run.run.toolchain != CURRENT_TOOLCHAIN:
        options.append(("toolchain", run.run.toolchain))
    for name, names, planned in (
        ("model", selection.models, dict.fromkeys(case.model for case in run.cases)),
        ("mode", selection.variants, dict.fromkeys(case.variant for case in run.cases)),
    ):
        if set(names) - set(planned):
            options += [(name, value) for value in planned]
    return command_line(f"study run {study.name}", options)


def _values(run: StudyRun, dimension: str) -> str:
    return ", ".join(dict.fromkeys(str(getattr(case, dimension)) for case in run.cases))


def _packages(facts: Mapping[str, Any]) -> str:
    recorded = facts.get("packages")
    packages = recorded if isinstance(recorded, Mapping) else {}
    return ", ".join(f"{name} {packages[name]}" for name in _PACKAGES if name in packages)


def _when(run: Run) -> str:
    text = f"{run.started_at:%Y-%m-%d %H:%M} UTC"
    if run.finished_at is not None:
        text += f", in {clock((run.finished_at - run.started_at).total_seconds())}"
    return text if run.state is RunState.FINISHED else f"{text}; the run is {run.state}"


def _sampling(facts: Mapping[str, Any]) -> str:
    settings = facts.get("measure_settings")
    if not isinstance(settings, Mapping):
        return ""
    return (
        f"{counted(settings['num_launches'], 'launch')} a case, up to"
        f" {counted(settings['num_rounds'], 'round')} or {settings['budget_s']:g} s each"
    )


def _outcomes(run: StudyRun) -> str:
    counts = {outcome: sum(item.outcome is outcome for item in run.results) for outcome in Outcome}
    counts_text = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    planned = len(run.cases)
    left = planned - len(run.results)
    return counts_text + (f", {left} of {planned} without a result" if left else "")


def _warnings(seen: Sequence[StudyResult]) -> str:
    """Return a table of warnings with case counts and the first text of each; empty without any."""
    counts = Counter(code for item in seen for code in {warning.code for warning in item.warnings})
    texts = {warning.code: warning.text for item in seen[::-1] for warning in item.warnings}
    rows = [
        (_code(code), f"{number} of {len(seen)}", _escaped(one_line(texts[code])))
        for code, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return _markdown(("warning", "cases", "first text"), rows) if rows else ""


def _busy(seen: Sequence[StudyResult]) -> str:
    """Return a note on other load of the machine, empty if no case has the warning."""
    number = sum(any(warning.code == _BUSY for warning in item.warnings) for item in seen)
    if not number:
        return ""
    return (
        f"The machine was busy: in {counted_of(number, len(seen), 'case')} other work used the"
        " core, or the"
        f" hypervisor gave CPU time away (`{_BUSY}`). Wall times, compile times included, contain"
        " some of that."
    )


def _table(table: StudyTable) -> str:
    has_cohort = any(
        cohort_text(cell, metric)
        for cells in table.rows.values()
        for cell, metric in zip(cells, table.metrics, strict=True)
    )
    head = [table.spec.rows, *map(_code, table.columns)]
    if table.spec.is_ranked:
        head.insert(0, "rank")
    rows = []
    for index, (name, cells) in enumerate(table.rows.items(), start=1):
        row = [_code(name)] + [
            _cell(
                cell_text(cell, metric=metric),
                cohort_text(cell, metric) if has_cohort else "",
            )
            for cell, metric in zip(cells, table.metrics, strict=True)
        ]
        rows.append([str(index), *row] if table.spec.is_ranked else row)
    return _markdown(head, rows)


def _cell(text: str, cohort: str) -> str:
    return _escaped(f"{text}, {cohort}" if cohort else text)


def _published(items: Sequence[PublishedComparison], run: StudyRun) -> str:
    rows = [
        (
            _escaped(item.published.what),
            item.published.text,
            item.published.device,
            item.published.source,
            _ours(item),
        )
        for item in items
    ]
    head = ("what", "published", "on", "by", f"ours, on {run.device_name}")
    return _markdown(head, rows)


def _ours(item: PublishedComparison) -> str:
    if item.published.unlike:
        return item.published.unlike
    lines = [
        f"{name}: {_cell(cell_text(cell, metric='speedup'), cohort_text(cell, 'speedup'))}"
        for name, cell in item.ours.items()
    ]
    return "<br>".join(lines) or "not measured"


def _gaps(missing: Iterable[MissingNumber]) -> str:
    rows = [
        (
            f"`{gap.variant}`" if gap.variant else "all",
            gap.outcome.replace("_", " "),
            _escaped(gap.reason),
            _which(gap),
        )
        for gap in missing
    ]
    return _markdown(("variant", "outcome", "why", "cases"), rows)


def _which(gap: MissingNumber) -> str:
    models = ", ".join(gap.models)
    return f"{gap.num_cases}: {models}" if gap.num_cases else models or "-"


def _code(name: str) -> str:
    return f"`{name}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell_text(cell: StudyCell, *, metric: str) -> str:
    """Return the number of a cell with its interval, or the reason of its absence."""
    if cell.estimate is None:
        return cell.why
    text = estimate_text(cell.estimate, metric=metric)
    notes = [f"{number} fell back to {mode}" for mode, number in cell.ran_as]
    return f"{text} ({', '.join(notes)})" if notes else text


def estimate_text(estimate: Estimate, *, metric: str) -> str:
    """Return `1.23x [1.20, 1.26]`, or the number alone where it is exact."""
    unit = METRICS[metric].unit
    value = _number(estimate.value, unit=unit)
    if estimate.low == estimate.high:
        return value
    low, high = (_number(side, unit=unit) for side in (estimate.low, estimate.high))
    # A ratio has its `x` once.
    return f"{value} [{low.rstrip('x')}, {high.rstrip('x')}]"


def cohort_text(cell: StudyCell, metric: str) -> str:
    """Return the number of models of a cell, `3 of 4, 1.1x to 1.6x`; empty for a single one."""
    if cell.estimate is None or cell.num_subjects < 2:
        return ""
    count = f"{cell.num_common} of {cell.num_subjects}"
    if cell.num_common < 2 or cell.least is None or cell.most is None:
        return count
    unit = METRICS[metric].unit
    return f"{count}, {_number(cell.least, unit=unit)} to {_number(cell.most, unit=unit)}"


def study_json(study: Study, run: StudyRun) -> dict[str, Any]:
    """Return the tables of one run of `study` as a JSON object."""
    return {
        "study": study.name,
        "question": study.question,
        "tables": [_table_json(table) for table in study_tables(study, run.results)],
        "published": [_published_json(item) for item in compare_published(study, run.results)],
        "not_measured": [_gap_json(gap) for gap in gaps(study, run)],
    }


def _number(value: float, *, unit: str) -> str:
    if unit == "1" and value >= _LARGE_COUNT:
        return f"{value:,.0f}"
    return quantity(value, unit=unit)


def _table_json(table: StudyTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "rows_are": table.spec.rows,
        "rows": [
            {
                "name": name,
                "cells": [
                    {"column": column, "metric": metric, **_cell_json(cell)}
                    for column, metric, cell in zip(
                        table.columns, table.metrics, cells, strict=True
                    )
                ],
            }
            for name, cells in table.rows.items()
        ],
    }


def _cell_json(cell: StudyCell) -> dict[str, Any]:
    estimate = cell.estimate
    return {
        "value": None if estimate is None else estimate.value,
        "interval": None if estimate is None else [estimate.low, estimate.high],
        "range": None if estimate is None else [cell.least, cell.most],
        "num_common": cell.num_common,
        "num_subjects": cell.num_subjects,
        "ran_as": dict(cell.ran_as),
        "why": cell.why,
        "cases": [case.key for case in cell.cases],
    }


def _published_json(item: PublishedComparison) -> dict[str, Any]:
    figure = item.published
    ours: Mapping[str, Any] = {name: _cell_json(cell) for name, cell in item.ours.items()}
    return {
        "what": figure.what,
        "low": figure.low,
        "high": figure.high,
        "device": figure.device,
        "source": figure.source,
        "unlike": figure.unlike,
        "ours": ours,
    }


def _gap_json(gap: MissingNumber) -> dict[str, Any]:
    return {
        "variant": gap.variant,
        "outcome": gap.outcome,
        "reason": gap.reason,
        "num_cases": gap.num_cases,
        "models": list(gap.models),
    }
