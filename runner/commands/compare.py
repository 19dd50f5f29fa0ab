"""hud compare: two runs, revisions or result files side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from db.errors import NotFoundError, RecordError
from db.queries import load_document, load_runs
from db.records import Run, RunDocument, Verdict
from db.store import Store
from runner.analysis.compare import (
    DEFAULT_FAIL_ABOVE,
    CaseComparison,
    compare_results,
    has_failure,
)
from runner.analysis.machine import compare_machine, machine_text
from runner.commands.common import Column, json_option, print_json, print_table, with_workplace
from runner.documents import read_document
from runner.errors import NoSuchDocument
from runner.text import quantity
from runner.wiring import Workplace

LATEST, PREVIOUS = "latest", "previous"
# How far back a revision or the previous run is looked for.
_NUM_RUNS_SEARCHED = 1000
# What needs a person's eye comes first.
_ORDER = (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE, Verdict.UNCHANGED)


class Percentage(click.ParamType[float]):
    """`5%` or `0.05`."""

    name = "percentage"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the fraction that `value` stands for."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            number = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = -1.0
        if not 0 < number < 1:
            self.fail(f"{value!r} is neither like 5% nor like 0.05", param, ctx)
        return number


@click.command()
@click.argument("baseline")
@click.argument("candidate")
@click.option(
    "--fail-above",
    type=Percentage(),
    default=DEFAULT_FAIL_ABOVE,
    metavar="PCT",
    show_default="5%",
    help="The smallest change that counts.",
)
@click.option("--all", "show_all", is_flag=True, help="Show what is unchanged as well.")
@json_option
@with_workplace
def compare(
    workplace: Workplace,
    *,
    baseline: str,
    candidate: str,
    fail_above: float,
    show_all: bool,
    as_json: bool,
) -> None:
    """Compare CANDIDATE with BASELINE; exit with 1 when something became worse.

    Each is a run (an id, the start of one, `latest`, `previous`), a revision or a result file
    of `hud run --json`.
    """
    store = workplace.store()
    before, after = (find_document(name, store=store) for name in (baseline, candidate))
    rows = compare_results(before, after, fail_above=fail_above)
    machine = compare_machine(before.results, candidate=after.results)
    if as_json:
        content = _to_json(rows, before=before.run, after=after.run)
        print_json({**content, "machine": [item.to_json() for item in machine]})
    else:
        _print(rows, before=before.run, after=after.run, show_all=show_all)
        click.echo(f"machine {machine_text(machine)}")
    sys.exit(int(has_failure(rows)))


def find_document(name: str, *, store: Store) -> RunDocument:
    """Return the run that `name` stands for; raise NoSuchDocument when there is none."""
    path = Path(name)
    if path.is_file():
        try:
            return read_document(path)
        except (OSError, RecordError) as error:
            raise NoSuchDocument(f"cannot read {path}: {error}") from error
    if name == PREVIOUS:
        return load_document(store, _previous_run(store).id)
    try:
        return load_document(store, name)
    except NotFoundError as error:
        runs = [summary.run for summary in load_runs(store, limit=_NUM_RUNS_SEARCHED)]
        at_revision = [run for run in runs if name in _revision_names(run)]
        if not at_revision:
            raise NoSuchDocument(
                f"{name!r} is no result file, no run and no revision ({error})"
            ) from error
        return load_document(store, at_revision[0].id)


def _previous_run(store: Store) -> Run:
    runs = [summary.run for summary in load_runs(store, limit=_NUM_RUNS_SEARCHED)]
    like_the_latest = [
        run for run in runs[1:] if (run.machine, run.suite) == (runs[0].machine, runs[0].suite)
    ]
    if not like_the_latest:
        raise NoSuchDocument(
            "there is no previous run of the latest run's suite on its machine;"
            " `hud runs` lists what there is"
        )
    return like_the_latest[0]


def _revision_names(run: Run) -> tuple[str, str, str]:
    version, _, commit = run.revision.partition("@")
    return (run.revision, version, commit)


def _print(rows: Sequence[CaseComparison], *, before: Run, after: Run, show_all: bool) -> None:
    click.echo(f"baseline  {before.id}  {before.revision}  {before.started_at:%Y-%m-%d %H:%M}")
    click.echo(f"candidate {after.id}  {after.revision}  {after.started_at:%Y-%m-%d %H:%M}\n")
    ordered = sorted(rows, key=lambda row: _ORDER.index(row.comparison.verdict))
    shown = [row for row in ordered if show_all or row.comparison.verdict is not Verdict.UNCHANGED]
    if shown:
        columns = [
            *(Column(name=name) for name in ("case", "metric")),
            *(Column(name=name, is_number=True) for name in ("baseline", "candidate", "change")),
            *(Column(name=name) for name in ("interval", "verdict", "why")),
        ]
        print_table(columns, rows=[_cells(row) for row in shown])
        click.echo()
    counts = dict.fromkeys(_ORDER, 0)
    for row in rows:
        counts[row.comparison.verdict] += 1
    click.echo(", ".join(f"{num} {verdict}" for verdict, num in counts.items()))


def _cells(row: CaseComparison) -> tuple[str, ...]:
    found = row.comparison
    interval = "-"
    if found.low is not None and found.high is not None:
        interval = f"{_change(found.low)} .. {_change(found.high)}"
    return (
        row.case.key,
        row.metric,
        quantity(row.baseline, unit=row.unit),
        quantity(row.candidate, unit=row.unit),
        "-" if found.ratio is None else _change(found.ratio),
        interval,
        str(found.verdict),
        found.reason,
    )


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _to_json(rows: Sequence[CaseComparison], *, before: Run, after: Run) -> dict[str, Any]:
    return {
        "baseline": _side_json(before),
        "candidate": _side_json(after),
        "failed": has_failure(rows),
        "rows": [
            {
                "case": row.case.to_json(),
                "metric": row.metric,
                "unit": row.unit,
                "baseline": row.baseline,
                "candidate": row.candidate,
                "ratio": row.comparison.ratio,
                "interval": None
                if row.comparison.low is None
                else [row.comparison.low, row.comparison.high],
                "verdict": str(row.comparison.verdict),
                "significant": row.comparison.is_significant,
                "relevant": row.comparison.is_relevant,
                "reason": row.comparison.reason,
            }
            for row in rows
        ],
    }


def _side_json(run: Run) -> dict[str, Any]:
    return {"run_id": run.id, "revision": run.revision, "machine": run.machine}
