"""The page of a study: what was asked, how, on what, and what was found, as Markdown.

It says no more than was measured: a number has its interval and its device, a case without one its
outcome, and published figures their own device; nothing is computed between the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_hud.db.records.results import Outcome, Run, RunState
from compile_hud.db.shared.text import one_line
from compile_hud.runner.analysis.repro import command_line
from compile_hud.runner.analysis.studies.study import Seen, Study, StudyRun, section_titles
from compile_hud.runner.analysis.studies.tables import (
    Beside,
    Gap,
    StudyTable,
    beside_published,
    gaps,
    study_tables,
)
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.format import clock
from compile_hud.runner.reporting._merge_study_text import cell_text, cohort_text

_METHOD = (
    "Each case is measured in fresh processes, eager and variant in turn. A speedup is eager over"
    " variant latency in the same process, above 1 is faster"
    " ([methodology](../methodology.md)). Numbers over several models or shapes are geometric means"
    " over those that are ok in every column of the row, as *n of m*, followed by the least and the"
    " largest of them. Brackets are 95 % intervals of measuring these very cases again on this"
    " device; they say nothing about other models or devices. A case that is not ok has its"
    " outcome and no number. A latency is CPU time where the title says so, which no other process"
    " takes part of. How many times faster a case is than eager in another dtype is its speedup"
    " times the ratio of eager in the two dtypes, which were measured in processes of their own."
)
_PUBLISHED = (
    "Others measured these with other models, shapes and versions, and on the devices named. They"
    " stand beside ours for orientation; a difference between the two columns is no finding."
)
# Facts of the environment that decide what a number means, by what they are called here.
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
# The warning of a case that did not have its core for itself.
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
    if busy := _busy(run.seen):
        parts.append(busy)
    for table in study_tables(study, run.seen):
        parts += [f"### {table.title}", _table(table)]
    if beside := beside_published(study, run.seen):
        parts += ["### Published figures", _PUBLISHED, _published(beside, run)]
    if missing := gaps(study, run):
        parts += ["### What has no number, and why", _gaps(missing)]
    if warnings := _warnings(run.seen):
        parts += ["### Warnings", warnings]
    return parts


def _provenance(study: Study, run: StudyRun) -> str:
    facts = run.run.environment
    rows = [(name, str(facts[key])) for name, key in _FACTS if facts.get(key) is not None]
    if run.device == "cpu":
        # The device is the CPU: naming it twice tells nothing.
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
    """Return what measures the same again: with the models and variants of the run, if not all."""
    asked = study.cases[run.device]
    options = [("device", run.device)]
    if run.run.toolchain != CURRENT_TOOLCHAIN:
        options.append(("toolchain", run.run.toolchain))
    for name, wanted, planned in (
        ("model", asked.models, dict.fromkeys(case.model for case in run.cases)),
        ("mode", asked.variants, dict.fromkeys(case.variant for case in run.cases)),
    ):
        if set(wanted) - set(planned):
            options += [(name, value) for value in planned]
    return command_line(f"study run {study.name}", options)


def _values(run: StudyRun, dimension: str) -> str:
    return ", ".join(dict.fromkeys(str(getattr(case, dimension)) for case in run.cases))


def _packages(facts: Mapping[str, Any]) -> str:
    found = facts.get("packages")
    packages = found if isinstance(found, Mapping) else {}
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
        f"{settings['num_launches']} launches a case, up to {settings['num_rounds']} rounds or"
        f" {settings['budget_s']:g} s each"
    )


def _outcomes(run: StudyRun) -> str:
    counts = {outcome: sum(item.outcome is outcome for item in run.seen) for outcome in Outcome}
    told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    planned = len(run.cases)
    left = planned - len(run.seen)
    return told + (f", {left} of {planned} without a result" if left else "")


def _warnings(seen: Sequence[Seen]) -> str:
    """Return how many cases have each warning, with the words of the first; empty without any."""
    counts = Counter(code for item in seen for code in {warning.code for warning in item.warnings})
    texts = {warning.code: warning.text for item in seen[::-1] for warning in item.warnings}
    rows = [
        (_code(code), f"{number} of {len(seen)}", _escaped(one_line(texts[code])))
        for code, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return _markdown(("warning", "cases", "the first says"), rows) if rows else ""


def _busy(seen: Sequence[Seen]) -> str:
    """Return that the machine had other work, empty where it had none that anybody noticed."""
    number = sum(any(warning.code == _BUSY for warning in item.warnings) for item in seen)
    if not number:
        return ""
    return (
        f"The machine was busy: in {number} of {len(seen)} cases other work had the core, or the"
        f" hypervisor gave CPU time away (`{_BUSY}`). Times by the wall clock, compile times among"
        " them, hold some of that."
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
    for place, (name, cells) in enumerate(table.rows.items(), start=1):
        row = [_code(name)] + [
            _cell(
                cell_text(cell, metric=metric),
                cohort_text(cell, metric) if has_cohort else "",
            )
            for cell, metric in zip(cells, table.metrics, strict=True)
        ]
        rows.append([str(place), *row] if table.spec.is_ranked else row)
    return _markdown(head, rows)


def _cell(text: str, cohort: str) -> str:
    return _escaped(f"{text}, {cohort}" if cohort else text)


def _published(items: Sequence[Beside], run: StudyRun) -> str:
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


def _ours(item: Beside) -> str:
    if item.published.unlike:
        return item.published.unlike
    lines = [
        f"{name}: {_cell(cell_text(cell, metric='speedup'), cohort_text(cell, 'speedup'))}"
        for name, cell in item.ours.items()
    ]
    return "<br>".join(lines) or "not measured"


def _gaps(missing: Iterable[Gap]) -> str:
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


def _which(gap: Gap) -> str:
    models = ", ".join(gap.models)
    return f"{gap.num_cases}: {models}" if gap.num_cases else models or "-"


def _code(name: str) -> str:
    return f"`{name}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
