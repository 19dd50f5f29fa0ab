"""Import files of other tools: detect the format, build the runs, store new results."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from compile_hud.db.errors import RecordError
from compile_hud.db.ingest.imported_history import (
    Imported,
    known_runs,
    mark_imported,
    put_imported,
    was_imported,
)
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.files.json_files import check_not_ahead
from compile_hud.runner.files.stream_reader import Source
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
from compile_hud.runner.interop.importers.series_units import SeriesUnits, UnitChange
from compile_hud.runner.interop.importers.torchbench import TorchBenchReader
from compile_hud.runner.interop.importers.v3 import V3Reader
from compile_hud.runner.interop.importers.vocabulary import ImportedMetric

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
class ImportReport:
    """The result of importing one file.

    `skipped` has the rows and values without a measurement, by reason, and `unread` the fields that
    no reader knows. `mixed` has the rows that became launches of a result with other settings, by
    these settings. `changing_machines` are runners of one run each, so that no machine has a
    history. A file that was imported before is not read again: `num_rows` is None, and
    `num_untimed` counts the first row alone.
    """

    path: Path
    format: str
    num_rows: int | None = None
    num_runs: int = 0
    results: Imported = field(default_factory=Imported)
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=NamedCounts)
    mixed: NamedCounts = field(default_factory=NamedCounts)
    changing_machines: tuple[str, ...] = ()
    num_untimed: int = 0
    metrics: tuple[ImportedMetric, ...] = ()
    unit_changes: tuple[UnitChange, ...] = ()
    is_known: bool = False

    @property
    def contradicted(self) -> list[str]:
        """Return the names of metrics with more than one stated direction."""
        stated = {(item.name, item.direction) for item in self.metrics if not item.is_guessed}
        names = Counter(name for name, _ in stated)
        return sorted(name for name, count in names.items() if count > 1)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "file": str(self.path),
            "format": self.format,
            "rows": self.num_rows,
            "runs": self.num_runs,
            "new": self.results.num_new,
            "changed": self.results.num_changed,
            "known": self.results.num_known,
            "skipped": dict(self.skipped.num_by_reason),
            "skipped_first": self.skipped.first_by_reason,
            "unread": dict(self.unread.num_by_reason),
            "unread_first": self.unread.first_by_reason,
            "mixed": dict(self.mixed.num_by_reason),
            "mixed_first": self.mixed.first_by_reason,
            "changing_machines": len(self.changing_machines),
            "untimed": self.num_untimed,
            "unchanged": self.is_known,
            "unit_changes": [
                {
                    "metric": change.metric,
                    "series_unit": change.series_unit,
                    "stated_unit": change.stated_unit,
                    "imported_as": change.imported_as,
                }
                for change in self.unit_changes
            ],
            "metrics": [
                {
                    "name": metric.name,
                    "unit": metric.unit,
                    "direction": str(metric.direction),
                    "guessed": metric.is_guessed,
                    "judged": metric.judged_direction is not None,
                }
                for metric in self.metrics
            ],
        }


def import_file(
    path: Path,
    *,
    store: Store,
    missing_values: MissingValuePolicy,
    format_name: str | None,
    now: datetime,
) -> ImportReport:
    """Import one file and return the report; the same content twice changes nothing.

    The name counts as content in formats that rely on it. The whole file is read before anything is
    stored, so a faulty file stores nothing. Raises ImportFailed with file and line, and the store's
    errors.
    """
    source = Source(path)
    name = format_name or find_format(path)
    digest = source.read_digest()
    reader = READERS[name](missing_values)
    facts = reader.name_facts(path.name)
    content = f"import-{name}-{digest}-{_identity(missing_values, name_facts=facts)}"
    if was_imported(store, content):
        has_time = missing_values.at is not None or _is_timed(reader, source)
        return ImportReport(path=path, format=name, num_untimed=int(not has_time), is_known=True)
    units = SeriesUnits(functools.partial(_units_of, store))
    history = HistoryBuilder(
        untimed_at=missing_values.at or _modified_at(path),
        has_exact_time=bool(missing_values.at),
        units=units,
    )
    for row in reader.rows(source):
        history.add(row)
    source.check_digest(digest)
    # The time of the file itself does not count: it changes with every copy.
    time_of_rows = missing_values.at if history.num_untimed else None
    _check_not_ahead(path, [at for at in (history.newest_row_at, time_of_rows) if at], now=now)
    if not history.num_rows:
        raise _no_rows(path, format_name=name, skipped=reader.skipped)
    done = Imported()
    num_runs = 0
    for documents in _batches(history.documents()):
        done += _put(store, documents, at=now)
        num_runs += len(documents)
    mark_imported(store, content, at=now)
    return ImportReport(
        path=path,
        format=name,
        num_rows=history.num_rows,
        num_runs=num_runs,
        results=done,
        skipped=reader.skipped,
        unread=reader.unread,
        mixed=history.mixed,
        changing_machines=history.changing_machines,
        num_untimed=history.num_untimed,
        metrics=history.metrics,
        unit_changes=tuple(sorted(units.changes)),
    )


def _no_rows(path: Path, *, format_name: str, skipped: NamedCounts) -> ImportFailed:
    texts = ", ".join(skipped.texts())
    return ImportFailed(
        f"{path} has nothing to import: there is no row of the format {format_name} in it"
        f"{f' (skipped {texts})' if texts else ''}. Is the file whole? --format names"
        " another format",
        path=path,
        name=format_name,
    )


def _is_timed(reader: Reader, source: Source) -> bool:
    """Return whether the first row of `source` has a time."""
    first = next(reader.rows(source), None)
    return first is not None and first.at_s is not None


def _units_of(store: Store, metric: str) -> dict[str, str]:
    """Return the unit of each series of `metric` in the store, by case key."""
    if store.is_missing():
        return {}
    return {header.case.key: header.unit for header in find_series(store, metric=metric)}


def _check_not_ahead(path: Path, starts: Sequence[datetime], *, now: datetime) -> None:
    """Raise ImportFailed if a run of `path` would start after today."""
    try:
        for started_at in starts:
            check_not_ahead("its newest run", started_at=started_at, now=now)
    except RecordError as error:
        raise ImportFailed(
            f"{path}: {error}. Nothing of this file was imported", path=path, reason=str(error)
        ) from error


def _put(store: Store, documents: Sequence[RunDocument], *, at: datetime) -> Imported:
    """Store `documents`; results that this store exported itself stay unchanged."""
    exported = {document.run.id: exported_id(document.run) for document in documents}
    here = known_runs(store, [name for name in exported.values() if name])
    # A run with another name here is a copy of one that was measured here.
    own = {run_id for run_id, name in exported.items() if name in here and name != run_id}
    num_known = sum(len(item.results) for item in documents if item.run.id in own)

    def merge(before: CaseResult, after: CaseResult) -> CaseResult:
        return before if exported[after.run_id] else merge_results(before, after)

    others = [document for document in documents if document.run.id not in own]
    return Imported(num_known=num_known) + put_imported(store, others, at=at, merge=merge)


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


def _batches(documents: Iterable[RunDocument]) -> Iterator[Sequence[RunDocument]]:
    batch: list[RunDocument] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += sum(max(1, len(result.measurements)) for result in document.results)
        if size >= _MEASUREMENTS_PER_WRITE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
