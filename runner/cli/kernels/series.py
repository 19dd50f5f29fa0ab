"""hud kernels series: each kernel of a case over its newest results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.kernel_series import load_kernel_histories
from compile_hud.db.records.summaries import KernelHistory
from compile_hud.db.shared.text import counted, one_line, shortened, signed_percent
from compile_hud.runner.analysis.kernel_series.chains import KernelChain, chain_kernels
from compile_hud.runner.analysis.kernel_series.masked_changes import NUM_RESULTS
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.kernels.commands import find_kernels
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.detection.kernel_judging import side_of_night
from compile_hud.runner.format import quantity, sparkline
from compile_hud.runner.workspace import Workspace

_COLUMNS = (
    Column(name="kernel"),
    *(Column(name=name, is_number=True) for name in ("newest", "median", "change", "results")),
    Column(name="trend", is_whole=True),
)
_SPARE = ("results", "median")
# `--json` has every kernel and whole names.
_NUM_SHOWN = 40
_MAX_LABEL = 120


@click.command(
    "series",
    cls=ExampleCommand,
    examples=("hud kernels series latest bert/inference",),
)
@click.argument("run_name", metavar="RUN")
@click.argument("case_name", metavar="CASE")
@json_option
@with_workspace
def series_command(workspace: Workspace, *, run_name: str, case_name: str, as_json: bool) -> None:
    """Show each kernel of a case over its newest results.

    RUN and CASE are as `hud kernels show` takes them. A kernel that is renumbered, split or fused
    continues. Only results on the machine and toolchain of RUN count, in the environment of the
    newest one.
    """
    store = workspace.store()
    run, result = find_kernels(run_name, case_name, store=store)
    histories = load_kernel_histories(store, [result.case.key], num_results=NUM_RESULTS)
    scope = (run.machine, run.toolchain)
    history = next((item for item in histories if (item.machine, item.toolchain) == scope), None)
    if history is None:
        raise NotFoundError(
            f"the store has no results of {result.case.key} on {run.machine} with toolchain"
            f" {run.toolchain}: a series needs stored runs",
            case=result.case.key,
        )
    chains = chain_kernels(history.nights, side_of=lambda night: side_of_night(store, night))
    if as_json:
        print_json(_document(history, chains))
        return
    first, last = history.nights[0].run, history.nights[-1].run
    echo(f"case    {history.case.key}")
    echo(f"results {len(history.nights)}, {first.run_id} to {last.run_id}\n")
    print_table(_COLUMNS, rows=[_row(chain) for chain in chains[:_NUM_SHOWN]], spare=_SPARE)
    if len(chains) > _NUM_SHOWN:
        echo(f"{counted(len(chains) - _NUM_SHOWN, 'shorter kernel')}; --json has all")


def _row(chain: KernelChain) -> tuple[str, ...]:
    times_s = _times(chain.seconds)
    newest_s = float(chain.seconds[-1])
    median_s = float(np.median(times_s))
    is_running = not math.isnan(newest_s)
    is_changed = is_running and len(times_s) > 1 and times_s[0] > 0
    return (
        shortened(one_line(chain.label), limit=_MAX_LABEL),
        quantity(newest_s, unit="s") if is_running else "gone",
        quantity(median_s, unit="s"),
        signed_percent(newest_s / times_s[0] - 1) if is_changed else "-",
        f"{len(times_s)}",
        sparkline(times_s),
    )


def _times(seconds: np.ndarray) -> list[float]:
    return [float(value) for value in seconds if not math.isnan(value)]


def _document(history: KernelHistory, chains: Sequence[KernelChain]) -> dict[str, Any]:
    return {
        "case": history.case.to_json(),
        "machine": history.machine,
        "toolchain": history.toolchain,
        "results": [
            {
                "run_id": night.run.run_id,
                "result_id": night.result_id,
                "revision": night.run.revision,
                "latency_s": night.latency_s,
            }
            for night in history.nights
        ],
        "series": [
            {
                "label": chain.label,
                # A result in which the kernel did not run has no time.
                "total_s": [None if math.isnan(value) else float(value) for value in chain.seconds],
                "variants": list(chain.variants),
            }
            for chain in chains
        ],
    }
