"""hud export: runs in formats that other tools read."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_run_ids
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.cli.compare.command import find_document
from compile_hud.runner.cli.completion.names import METRIC
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import with_workspace
from compile_hud.runner.documents.cases import case_glob
from compile_hud.runner.errors import DocumentNotWritten, NoSuchDocument
from compile_hud.runner.interop.exporters.finding_tables import to_findings_csv
from compile_hud.runner.interop.exporters.flat_tables import to_csv, to_parquet
from compile_hud.runner.interop.exporters.mlperf import to_mll
from compile_hud.runner.interop.exporters.openmetrics import to_openmetrics
from compile_hud.runner.interop.exporters.v3 import to_v3
from compile_hud.runner.protocol.files import whole_file
from compile_hud.runner.workspace import Workspace

ALL_RUNS = "all"
PARQUET = "parquet"
FINDINGS = "findings"


def _to_mlperf(documents: Iterable[RunDocument]) -> Iterator[bytes]:
    for document in documents:
        yield to_mll(document).encode()


FORMATS: Mapping[str, Callable[[Iterable[RunDocument]], Iterator[bytes]]] = {
    "v3": to_v3,
    "csv": to_csv,
    PARQUET: to_parquet,
    "openmetrics": to_openmetrics,
    "mlperf": _to_mlperf,
    FINDINGS: to_findings_csv,
}


class Format(click.ParamType[str]):
    """The name of a format; an unknown one is refused with a list of all."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` if it names a format."""
        if value not in FORMATS:
            near = near_names(str(value), FORMATS)
            hint = f" Did you mean {near}?" if near else ""
            self.fail(f"no format {value!r}.{hint} Available: {', '.join(FORMATS)}", param, ctx)
        return str(value)


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud export latest --format csv --metric 'latency*' -o latency.csv",
        "hud export all --format parquet -o history.parquet",
    ),
)
@click.argument("run_names", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_name",
    type=Format(),
    metavar="FORMAT",
    required=True,
    help=f"The format: {', '.join(FORMATS)}.",
)
@click.option(
    "--case",
    "cases",
    metavar="CASE",
    multiple=True,
    help="Only these cases: a key, a part of one, or a glob.",
)
@click.option(
    "--metric",
    "metrics",
    type=METRIC,
    metavar="METRIC",
    multiple=True,
    help="Only these, as globs.",
)
@click.option(
    "--output",
    "-o",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The output file, instead of standard output.",
)
@with_workspace
def export(
    workspace: Workspace,
    *,
    run_names: tuple[str, ...],
    format_name: str,
    cases: tuple[str, ...],
    metrics: tuple[str, ...],
    path: Path | None,
) -> None:
    """Write RUNs in a format of other tools.

    Each is an id, the start of one, `latest`, `previous`, a revision or a result file; `all` is
    every run of the store.
    """
    if path is None and format_name == PARQUET and sys.stdout.isatty():
        raise click.UsageError("parquet is no text for a terminal; name a file with -o")
    if metrics and format_name == FINDINGS:
        raise click.UsageError("findings are of cases, not of metrics; leave out --metric")
    # The findings of a case need kernels, and the other cases of its model.
    is_derived = format_name == FINDINGS
    documents = _documents(run_names, workspace.store(), has_kernels=is_derived)
    selection = _ExportFilter(cases=cases, metrics=metrics, store=workspace.store().name)
    chosen = selection.of(documents, has_other_cases=is_derived)
    # Without a result there is an error instead of a header.
    whole = itertools.chain([next(chosen)], chosen)
    pieces = (
        to_findings_csv(whole, is_chosen=selection.has_case)
        if is_derived
        else FORMATS[format_name](whole)
    )
    if path is None:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.flush()
    else:
        _write(path, pieces)


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write `pieces` to `path`, completely or not at all; raise DocumentNotWritten."""
    try:
        with whole_file(path) as stream:
            stream.writelines(pieces)
    except OSError as error:
        raise DocumentNotWritten(
            f"cannot write {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error


def _documents(names: Sequence[str], store: Store, *, has_kernels: bool) -> Iterator[RunDocument]:
    """Yield the runs in the order of their names, each once; a run is loaded when it is due."""
    seen: set[str] = set()
    for document in itertools.chain.from_iterable(
        _named(name, store, has_kernels=has_kernels) for name in names
    ):
        if document.run.id not in seen:
            seen.add(document.run.id)
            yield document


def _named(name: str, store: Store, *, has_kernels: bool) -> Iterator[RunDocument]:
    if name != ALL_RUNS:
        yield find_document(name, store=store, has_kernels=has_kernels)
        return
    for run_id in load_run_ids(store):
        yield load_document(store, run_id, has_kernels=has_kernels)


class _ExportFilter:
    """The cases and metrics of an export, all of them without names; `store` is for messages."""

    def __init__(self, *, cases: Sequence[str], metrics: Sequence[str], store: str) -> None:
        self._globs = {"case": {name: case_glob(name) for name in cases}}
        self._globs["metric"] = {name: name for name in metrics}
        self._store = store
        # The values of all runs, for what fits none of them.
        self._seen: dict[str, set[str]] = {"case": set(), "metric": set()}

    def has_case(self, key: str) -> bool:
        """Return whether the case with this key is selected."""
        return self._fits("case", key)

    def of(
        self, documents: Iterable[RunDocument], *, has_other_cases: bool
    ) -> Iterator[RunDocument]:
        """Yield `documents` with what is selected; ones without a selected case are left out.

        With `has_other_cases` they stay whole. Raises NoSuchDocument at the end for a name that
        fits nothing, and if nothing is selected.
        """
        is_empty = True
        for document in documents:
            self._note(document)
            fitting = [item for item in document.results if self.has_case(item.case.key)]
            results = tuple(filter(None, map(self._with_metrics, fitting)))
            if results:
                is_empty = False
                yield document if has_other_cases else replace(document, results=results)
        self._check_names()
        if is_empty:
            raise NoSuchDocument(
                "nothing to export: no result fits --case and --metric together, or the store"
                f" {self._store} is empty; `hud show RUN` lists the cases of a run",
                name=self._store,
            )

    def _note(self, document: RunDocument) -> None:
        for result in document.results:
            self._seen["case"].add(result.case.key)
            self._seen["metric"].update(item.metric for item in result.measurements)

    def _check_names(self) -> None:
        for kind, globs in self._globs.items():
            known = self._seen[kind]
            for name, glob in globs.items():
                if known and not any(fnmatchcase(item, glob) for item in known):
                    near = _near(name, known)
                    hint = f"did you mean {near}?" if near else "`hud show RUN` lists them"
                    raise NoSuchDocument(
                        f"no {kind} of these runs fits {name!r}; {hint}", name=name
                    )

    def _with_metrics(self, result: CaseResult) -> CaseResult | None:
        """Return `result` with the selected metrics alone, None where it has none of them."""
        if not self._globs["metric"]:
            return result
        measurements = tuple(
            item for item in result.measurements if self._fits("metric", item.metric)
        )
        return replace(result, measurements=measurements) if measurements else None

    def _fits(self, kind: str, value: str) -> bool:
        globs = self._globs[kind].values()
        return not globs or any(fnmatchcase(value, glob) for glob in globs)


def _near(name: str, known: Iterable[str]) -> str:
    """Return the values like `name`, or the parts of keys of cases that are."""
    names = sorted(known)
    return near_names(name, names) or near_names(
        name, sorted({part for item in names for part in item.split("/")})
    )
