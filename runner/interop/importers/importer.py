"""Import files of other tools: detect the format, build the runs, store new results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from compile_hud.db.errors import RecordError
from compile_hud.db.ingest.imported_history import (
    Imported,
    imported_contents,
    known_runs,
    put_imported,
)
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.files.json_files import check_not_ahead
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.import_report import ImportReport
from compile_hud.runner.interop.importers.benchmark_tools import (
    asv,
    google_benchmark,
    hyperfine,
    pytest_benchmark,
)
from compile_hud.runner.interop.importers.case_evidence import evidence_of, result_of
from compile_hud.runner.interop.importers.dynamo_csv import CsvReader
from compile_hud.runner.interop.importers.history import (
    HistoryBuilder,
    HistoryRow,
    MissingValuePolicy,
    exported_id,
)
from compile_hud.runner.interop.importers.named_counts import NamedCounts
from compile_hud.runner.interop.importers.series_units import SeriesUnits
from compile_hud.runner.interop.importers.torchbench import TorchBenchReader
from compile_hud.runner.interop.importers.v3 import V3Reader

V3, DYNAMO_CSV, TORCHBENCH = "v3", "dynamo-csv", "torchbench"
# The first field of a file of a general tool; the sign after the field, where two have it.
_FIRST_FIELD = re.compile(r"[\s\[]*\{\s*\"(\w+)\"\s*:\s*(.)")
_FORMATS_BY_FIELD: Mapping[str, str] = {
    "machine_info": pytest_benchmark.TOOL,
    "commit_info": pytest_benchmark.TOOL,
    "datetime": pytest_benchmark.TOOL,
    "context": google_benchmark.TOOL,
    "results [": hyperfine.TOOL,
    "results {": asv.TOOL,
    "commit_hash": asv.TOOL,
    "env_name": asv.TOOL,
    "result_columns": asv.TOOL,
}
# A field of the first benchmark in a file that begins with the list of them.
_FORMATS_BY_BENCHMARK = {
    '"fullname"': pytest_benchmark.TOOL,
    '"real_time"': google_benchmark.TOOL,
    '"run_name"': google_benchmark.TOOL,
}
# Measurements written in one transaction: about a second, in which no other process can read.
_MEASUREMENTS_PER_WRITE = 50_000
# Files stored in one transaction: reports of later ones wait for it.
_FILES_PER_WRITE = 2_000


class Reader(Protocol):
    """A reader of one format."""

    skipped: NamedCounts
    # Fields that the reader does not know.
    unread: NamedCounts

    def name_facts(self, name: str) -> tuple[str, ...]:
        """Return the facts that the file `name` adds to its content, such as a configuration."""
        ...

    def rows(self, source: Source) -> Iterator[HistoryRow]:
        """Yield the rows of `source`; raise ImportFailed naming the line that is wrong."""
        ...


READERS: Mapping[str, Callable[[MissingValuePolicy], Reader]] = {
    V3: V3Reader,
    DYNAMO_CSV: CsvReader,
    TORCHBENCH: TorchBenchReader,
    pytest_benchmark.TOOL: pytest_benchmark.PytestBenchmarkReader,
    hyperfine.TOOL: hyperfine.HyperfineReader,
    google_benchmark.TOOL: google_benchmark.GoogleBenchmarkReader,
    asv.TOOL: asv.AsvReader,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadFile:
    """A file that was read: its runs are stored with others, and `content` is its identity."""

    report: ImportReport
    content: str


class HistoryImporter:
    """Import files, with many of them in one transaction; the same content twice changes nothing.

    A file is read whole before anything of it is stored, so a faulty file stores nothing. Opening
    the store takes longer than most files do, and asv writes a file for each commit.
    """

    def __init__(
        self,
        store: Store,
        *,
        missing_values: MissingValuePolicy,
        format_name: str | None,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._missing_values = missing_values
        self._format_name = format_name
        self._now = now
        self._contents: dict[str, set[str]] = {}
        self._units: dict[str, dict[str, str]] = {}
        # Runs with the positions of their files, to be stored with the next transaction.
        self._documents: dict[str, tuple[int, RunDocument]] = {}
        self._size = 0
        self._files: list[_ReadFile | ImportReport | ImportFailed] = []
        self._done: dict[int, list[Imported]] = {}

    def reports(self, paths: Iterable[Path]) -> Iterator[ImportReport | ImportFailed]:
        """Yield the report or the error of each file, in order, once the store has it.

        Raises the store's errors.
        """
        for path in paths:
            position = len(self._files)
            try:
                self._files.append(self._read(path, position=position))
            except ImportFailed as error:
                self._files.append(error)
            if self._size >= _MEASUREMENTS_PER_WRITE or len(self._files) >= _FILES_PER_WRITE:
                yield from self._finished()
        yield from self._finished()

    def _finished(self) -> Iterator[ImportReport | ImportFailed]:
        """Store what was read, and yield the reports."""
        contents = [file.content for file in self._files if isinstance(file, _ReadFile)]
        if contents:
            self._write(contents)
        files, done = self._files, self._done
        self._files, self._done = [], {}
        for position, file in enumerate(files):
            if isinstance(file, _ReadFile):
                results = done.get(position, [])
                yield replace(
                    file.report, num_runs=len(results), results=sum(results, start=Imported())
                )
            else:
                yield file

    def _read(self, path: Path, *, position: int) -> _ReadFile | ImportReport:
        source = Source(path)
        name = self._format_name or find_format(path)
        digest = source.read_digest()
        reader = READERS[name](self._missing_values)
        identity = _identity(self._missing_values, name_facts=reader.name_facts(path.name))
        content = f"import-{name}-{digest}-{identity}"
        contents = self._contents_of(name)
        if content in contents:
            has_time = self._missing_values.at is not None or _is_timed(reader, source)
            return ImportReport(
                path=path, format=name, num_untimed=int(not has_time), is_known=True
            )
        units = SeriesUnits(self._units_of)
        history = HistoryBuilder(
            untimed_at=self._missing_values.at or _modified_at(path),
            has_exact_time=bool(self._missing_values.at),
            units=units,
        )
        for row in reader.rows(source):
            history.add(row)
        source.check_digest(digest)
        # The time of the file itself does not count: it changes with every copy.
        time_of_rows = self._missing_values.at if history.num_untimed else None
        starts = [at for at in (history.newest_row_at, time_of_rows) if at]
        _check_not_ahead(path, starts, now=self._now())
        if not history.num_rows:
            raise _no_rows(path, format_name=name, skipped=reader.skipped)
        self._units |= units.known
        for document in history.documents():
            self._add(document, position=position)
        contents.add(content)
        report = ImportReport(
            path=path,
            format=name,
            num_rows=history.num_rows,
            skipped=reader.skipped,
            unread=reader.unread,
            mixed=history.mixed,
            runner_spans=history.runner_spans,
            num_untimed=history.num_untimed,
            metrics=history.metrics,
            unit_changes=tuple(sorted(units.changes)),
        )
        return _ReadFile(report=report, content=content)

    def _contents_of(self, format_name: str) -> set[str]:
        """Return the contents of a format that the store has, or that were read here."""
        if format_name not in self._contents:
            prefix = f"import-{format_name}-"
            self._contents[format_name] = imported_contents(self._store, prefix=prefix)
        return self._contents[format_name]

    def _units_of(self, metric: str) -> Mapping[str, str]:
        """Return the unit of each series of `metric` in the store, by case key."""
        if metric not in self._units:
            headers = [] if self._store.is_missing() else find_series(self._store, metric=metric)
            self._units[metric] = {header.case.key: header.unit for header in headers}
        return self._units[metric]

    def _add(self, document: RunDocument, *, position: int) -> None:
        """Add a run of the file at `position`; two files of one run are stored one by one."""
        if document.run.id in self._documents or self._size >= _MEASUREMENTS_PER_WRITE:
            finished = self._files[:position]
            self._write([file.content for file in finished if isinstance(file, _ReadFile)])
        self._documents[document.run.id] = (position, document)
        self._size += sum(max(1, len(result.measurements)) for result in document.results)

    def _write(self, contents: Sequence[str]) -> None:
        """Store the runs, and that files of these `contents` are imported completely."""
        positions = [position for position, _document in self._documents.values()]
        documents = [document for _position, document in self._documents.values()]
        done = _put(self._store, documents, at=self._now(), contents=contents)
        for position, imported in zip(positions, done, strict=True):
            self._done.setdefault(position, []).append(imported)
        self._documents, self._size = {}, 0


def _no_rows(path: Path, *, format_name: str, skipped: NamedCounts) -> ImportFailed:
    texts = ", ".join(skipped.texts())
    return ImportFailed(
        f"{path} has nothing to import: there is no row of the format {format_name} in it"
        f"{f' (skipped {texts})' if texts else ''}. Is the file whole? --format names"
        " another format, and `hud ingest` stores result files of `hud run`",
        path=path,
        name=format_name,
    )


def _is_timed(reader: Reader, source: Source) -> bool:
    """Return whether the first row of `source` has a time."""
    first = next(reader.rows(source), None)
    return first is not None and first.at_s is not None


def _check_not_ahead(path: Path, starts: Sequence[datetime], *, now: datetime) -> None:
    """Raise ImportFailed if a run of `path` would start after today."""
    try:
        for started_at in starts:
            check_not_ahead("its newest run", started_at=started_at, now=now)
    except RecordError as error:
        raise ImportFailed(
            f"{path}: {error}. Nothing of this file was imported", path=path, reason=str(error)
        ) from error


def _put(
    store: Store, documents: Sequence[RunDocument], *, at: datetime, contents: Sequence[str]
) -> list[Imported]:
    """Store `documents`; results that this store exported itself stay unchanged."""
    exported = {document.run.id: exported_id(document.run) for document in documents}
    here = known_runs(store, [name for name in exported.values() if name])
    # A run with another name here is a copy of one that was measured here.
    own = {run_id for run_id, name in exported.items() if name in here and name != run_id}

    def merge(before: CaseResult, after: CaseResult) -> CaseResult:
        return before if exported[after.run_id] else merge_results(before, after)

    others = [document for document in documents if document.run.id not in own]
    done = iter(put_imported(store, others, at=at, merge=merge, contents=contents))
    return [
        Imported(num_known=len(document.results)) if document.run.id in own else next(done)
        for document in documents
    ]


def find_format(path: Path) -> str:
    """Return the name of the format of the file, by its name and its first object."""
    if path.name.removesuffix(".gz").endswith(".csv"):
        return DYNAMO_CSV
    if tool := _tool_of(Source(path).head()):
        return tool
    _line, first = next(Source(path).objects(), (1, {}))
    return TORCHBENCH if isinstance(first.get("metrics"), dict) else V3


def _tool_of(head: str) -> str:
    """Return the format of a general tool's file that begins with `head`, empty for another."""
    match = _FIRST_FIELD.match(head)
    if match is None:
        return ""
    first, sign = match.groups()
    if first == "benchmarks":
        positions = {head.find(field): name for field, name in _FORMATS_BY_BENCHMARK.items()}
        return min((item for item in positions.items() if item[0] >= 0), default=(0, ""))[1]
    return _FORMATS_BY_FIELD.get(first) or _FORMATS_BY_FIELD.get(f"{first} {sign}", "")


def merge_results(before: CaseResult, after: CaseResult) -> CaseResult:
    """Return the union of two results of the same case in the same run."""
    evidence = evidence_of(before)
    evidence.add(evidence_of(after))
    return result_of(evidence, case=before.case, run_id=before.run_id, at=before.started_at)


def _identity(missing_values: MissingValuePolicy, *, name_facts: Sequence[str]) -> str:
    at = None if missing_values.at is None else missing_values.at.isoformat()
    return json.dumps([missing_values.revision, missing_values.machine, at, *name_facts])


def _modified_at(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror or error}", path=path) from error
