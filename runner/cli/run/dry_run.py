"""hud run --dry-run: the cases of a run and about how long they take, without measuring."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile_hud.db.errors import StoreError
from compile_hud.db.queries.latest import load_case_seconds
from compile_hud.db.records.results import Case
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.db.shared.text import counted
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.options import check_model_files
from compile_hud.runner.cli.output import print_json
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.format import clock, rough_duration
from compile_hud.runner.planning.estimate import RUN_S, CaseEstimate, estimate_cases
from compile_hud.runner.planning.plan import find_names, make_plan
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest, resolve_run
from compile_hud.runner.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class _DryRun:
    """The estimates of a run in one toolchain; it starts cases for `limit_s` seconds."""

    toolchain: str
    cases: Sequence[CaseEstimate]
    limit_s: float | None

    @property
    def total_s(self) -> float:
        """Return the seconds of the whole run."""
        total_s = sum(item.seconds for item in self.cases)
        return RUN_S + (total_s if self.limit_s is None else min(total_s, self.limit_s))


def show_dry_run(
    requests: Sequence[RunRequest], *, workspace: Workspace, as_json: bool = False
) -> None:
    """Print the cases of `requests`, which differ in their toolchain, and the time they take."""
    check_model_files(requests, config=workspace.config)
    names = [request.toolchain for request in requests]
    find_names(names, known=workspace.config.toolchains, kind="toolchain")
    runs = [_dry_run(item, is_alone=len(requests) == 1, workspace=workspace) for item in requests]
    if as_json:
        print_json(_to_json(runs))
        return
    columns = [
        *(Column(name=name) for name in ("model", "phase", "shape", "dtype", "modes")),
        Column(name="about", is_number=True),
    ]
    estimates = list(zip(*(run.cases for run in runs), strict=True))
    rows = [
        (
            *group,
            ", ".join(same[0].case.variant for same in items),
            clock(sum(item.seconds for same in items for item in same)),
        )
        for group, items in (
            (group, list(each))
            for group, each in itertools.groupby(estimates, key=lambda same: _group(same[0].case))
        )
    ]
    print_table(columns, rows=rows)
    echo(_summary(runs, machine=workspace.config.machine))


def _dry_run(request: RunRequest, *, is_alone: bool, workspace: Workspace) -> _DryRun:
    config = workspace.config
    device = request.device
    if device == AUTO_DEVICE:
        device = "cuda" if workspace.dependencies.has_gpu() else "cpu"
    run = resolve_run(request, device=device, config=config)
    plan = make_plan(
        run.selection,
        catalog=config.catalog,
        variants=config.variants,
        device=device,
        has_references=run.has_references,
    )
    return _DryRun(
        toolchain=request.toolchain,
        cases=estimate_cases(
            [item.case for item in plan],
            known=_history(run.toolchain, workspace=workspace),
            num_launches=run.settings.num_launches,
            # Interleaved toolchains do not compile ahead.
            num_processes=run.compile_ahead if is_alone else 0,
        ),
        limit_s=run.time_budget_s,
    )


def _history(toolchain: str, *, workspace: Workspace) -> Mapping[str, CaseSeconds]:
    """Return the seconds of the last results on this machine, none if the store has no answer."""
    store = workspace.store().with_short_timeout()
    if not workspace.has_store or store.is_missing():
        return {}
    try:
        return load_case_seconds(store, machine=workspace.config.machine, toolchain=toolchain)
    except StoreError as error:
        echo(f"warning: the last results are unknown: {error}", err=True)
        return {}


def _group(case: Case) -> tuple[str, str, str, str]:
    return case.model, str(case.phase), case.shape, str(case.dtype)


def _summary(runs: Sequence[_DryRun], *, machine: str) -> str:
    """Return the number of cases, the time they take, and what it is estimated from."""
    each = runs[0].cases
    cases = counted(len(each), "case")
    if len(runs) > 1:
        cases += f" in each of {counted(len(runs), 'toolchain')}"
    duration = rough_duration(sum(run.total_s for run in runs))
    items = [item for run in runs for item in run.cases]
    num_known = sum(item.is_known for item in items)
    if num_known == len(items):
        source = f"from the last results on {machine}"
    elif num_known == 0:
        source = f"from measured defaults, since {machine} has no results yet"
    else:
        num_others = counted(len(items) - num_known, "case")
        source = f"from the last results on {machine}, {num_others} from measured defaults"
    limit_s = runs[0].limit_s
    is_limited = limit_s is not None and limit_s < sum(item.seconds for item in each)
    limit = f"; the time budget of {clock(limit_s or 0.0)} defers the rest" if is_limited else ""
    return f"{cases}, about {duration} ({source}){limit}"


def _to_json(runs: Sequence[_DryRun]) -> dict[str, object]:
    return {
        "schema_version": 1,
        "num_cases": len(runs[0].cases),
        "seconds": sum(run.total_s for run in runs),
        "runs": [
            {
                "toolchain": run.toolchain,
                "seconds": run.total_s,
                "time_budget_s": run.limit_s,
                "cases": [
                    {
                        "case": item.case.key,
                        "seconds": item.seconds,
                        "source": "history" if item.is_known else "default",
                    }
                    for item in run.cases
                ],
            }
            for run in runs
        ],
    }
