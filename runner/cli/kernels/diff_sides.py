"""The two sides of `hud kernels diff`, from trace files, result files or the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.cli.compare.command import find_document
from compile_hud.runner.cli.kernels.commands import find_kernels
from compile_hud.runner.cli.kernels.trace_files import (
    check_file_name,
    device_of,
    is_result_file,
    read_trace,
)
from compile_hud.runner.documents.pairs.kernels import NamedSide, named_side, with_device


@dataclass(frozen=True, slots=True, kw_only=True)
class _SideName:
    """A parsed argument: a trace, or a run with an optional case."""

    name: str
    case: str | None
    is_trace: bool


def find_sides(names: Sequence[str], *, case: str | None, store: Store) -> list[NamedSide]:
    """Return the sides that `names` stand for; raise NotFoundError or TraceError.

    A name without a case means `case`, else the case of the other side.
    """
    sides = [_side_name(name) for name in names]
    known = case or next((item.case for item in sides if item.case), None)
    if case is not None and all(item.is_trace for item in sides):
        raise click.UsageError("--case is for runs and result files; a trace has only one case")
    return [
        _from_trace(Path(item.name))
        if item.is_trace
        else _from_run(item.name, case=item.case or known, store=store)
        for item in sides
    ]


def _side_name(name: str) -> _SideName:
    path = Path(name)
    if path.is_file():
        return _SideName(name=name, case=None, is_trace=not is_result_file(path))
    run, _, case = name.rpartition(":")
    if Path(run).is_file():
        if not is_result_file(Path(run)):
            raise click.UsageError(f"{run} is a trace, which has only one case: leave out :{case}")
        return _SideName(name=run, case=case or None, is_trace=False)
    run, _, case = name.partition(":")
    check_file_name(run)
    return _SideName(name=run, case=case or None, is_trace=False)


def _from_trace(path: Path) -> NamedSide:
    report = read_trace(path)
    side = KernelSide(
        kernels=report.kernels,
        sources={source.hash: source.text for source in report.sources},
        profile=report.profile,
    )
    device = device_of(report)
    return NamedSide(
        side=side,
        title=with_device(f"trace {path}", device),
        facts={"trace": str(path), "device": device or None},
        device=device,
    )


def _from_run(name: str, *, case: str | None, store: Store) -> NamedSide:
    if case is None:
        results = find_document(name, store=store).results
        keys = [result.case.key for result in results]
        if len(keys) != 1:
            raise NotFoundError(
                f"{name} has {counted(len(keys), 'case')}: {', '.join(keys)}. Name one:"
                f" {name}:CASE, or"
                " --case",
                name=name,
                keys=tuple(keys),
            )
        case = keys[0]
    run, result = find_kernels(name, case, store=store)
    return named_side(run, result, name=name)
