"""Read the code, the trends and the kernels of one model."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.urls import ModelState, TrendsState
from compile_hud.app.views.kernel_diff.data import load_runs_of_kernels
from compile_hud.app.views.model.records import CodeFact, KernelsOfModel
from compile_hud.app.views.trends.data import load_trends
from compile_hud.db.queries.latest import load_model_places
from compile_hud.db.records.metrics import LATENCIES
from compile_hud.db.records.results import Case, Run
from compile_hud.db.records.summaries import LatestCell, RunSummary
from compile_hud.db.shared.model_code import MODEL_COMMITS, revision_of
from compile_hud.db.shared.model_sources import source_hash
from compile_hud.runner.analysis.repro import command_line, glob_escape
from compile_hud.runner.analysis.trends.records import ModeTrends

TREND_METRIC = "speedup"
MODEL_METRICS = (TREND_METRIC, "compile_cold_s", "num_parameters", *LATENCIES)
_NUM_NEAREST = 3


def load_model_trends(
    state: ModelState, case: Case, *, machine: str, toolchain: str, now: datetime
) -> Loaded[ModeTrends]:
    """Return the speedups of the modes in the phase, shape, dtype and device of `case`."""
    where = {name: str(getattr(case, name)) for name in DIMENSIONS}
    selection = TrendsState(model=case.model, metric=TREND_METRIC, range=state.range, **where)
    return load_trends(selection, machine=machine, toolchain=toolchain, now=now)


@cached_read
def load_measured_models(at: StoreVersion) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the machines and toolchains with a result of each model, the newest result first."""
    return load_model_places(at.store)


def nearest_models(name: str, models: Iterable[str]) -> list[str]:
    """Return the models with a name like `name`: alike in spelling, or a part of the other.

    Case is ignored.
    """
    by_name = {model.casefold(): model for model in sorted(models)}
    text = name.casefold()
    within = [known for known in by_name if known in text or text in known]
    near = difflib.get_close_matches(text, by_name, n=_NUM_NEAREST)
    return [by_name[known] for known in dict.fromkeys((*near, *within))][:_NUM_NEAREST]


def code_fact(model: str, *, runs: Sequence[RunSummary], machine: str) -> CodeFact | None:
    """Return the present code of a model, and the run that first had it; None if unknown.

    `runs` are newest first. A run of another machine or without the fact says nothing.
    """
    here = [
        (item.run, _code_of(item.run, model))
        for item in runs
        if item.run.machine == machine and item.num_by_outcome
    ]
    known = [(run, code) for run, code in here if code != ("", "")]
    if not known:
        return None
    newest = known[0][1]
    num_same = next(
        (number for number, (_, code) in enumerate(known) if code != newest), len(known)
    )
    first = known[num_same - 1][0]
    return CodeFact(
        revision=newest[0],
        content_hash=newest[1],
        since=first.started_at,
        run_id=first.id,
        has_changed=num_same < len(known),
    )


def newest_kernels(cells: Sequence[LatestCell]) -> KernelsOfModel | None:
    """Return the newest run with kernels of a compiled case of the model, None without one."""
    candidates = [
        KernelsOfModel(run_id=run.run_id, case=cell.summary.case, at=run.at)
        for cell in cells
        for run in load_runs_of_kernels(cell.summary.case.key).value
        if (run.machine, run.toolchain) == (cell.machine, cell.toolchain)
    ]
    return max(candidates, key=lambda item: (item.case.variant != "eager", item.at), default=None)


def model_command(model: str, *, toolchain: str) -> str:
    """Return the command that measures all cases of a model again."""
    options = (("model", glob_escape(model)), ("toolchain", toolchain))
    return command_line("run", options)


def _code_of(run: Run, model: str) -> tuple[str, str]:
    """Return the revision and the content hash of the code of `model` in `run`."""
    commits = run.environment.get(MODEL_COMMITS)
    revision = revision_of(commits, model) if isinstance(commits, Mapping) else ""
    return revision, source_hash(run, model)
