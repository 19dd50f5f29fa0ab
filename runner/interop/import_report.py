"""The reports of imported files, and of a folder of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compile_hud.db.ingest.imported_history import Imported
from compile_hud.runner.interop.importers.named_counts import NamedCounts, merged_counts
from compile_hud.runner.interop.importers.series_units import UnitChange
from compile_hud.runner.interop.importers.vocabulary import ImportedMetric
from compile_hud.runner.interop.runner_spans import RunnerSpans, merged_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The result of importing one file, or the files of one folder.

    `skipped` has the rows and values without a measurement, by reason, and `unread` the fields that
    no reader knows. `mixed` has the rows that became launches of a result with other settings, by
    these settings. `runner_spans` has the times of machines that are runners. A file that was
    imported before is not read again: `num_rows` is None, and `num_untimed` counts the first row
    alone.
    """

    path: Path
    format: str
    num_files: int = 1
    num_known_files: int = 0
    num_rows: int | None = None
    num_runs: int = 0
    results: Imported = field(default_factory=Imported)
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=NamedCounts)
    mixed: NamedCounts = field(default_factory=NamedCounts)
    runner_spans: RunnerSpans = field(default_factory=RunnerSpans)
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
            "files": self.num_files,
            "known_files": self.num_known_files,
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
            "changing_machines": len(self.runner_spans.changing),
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


def folder_report(path: Path, reports: Sequence[ImportReport]) -> ImportReport:
    """Return one report of the files of the folder `path`, of which there is at least one."""
    read = [report for report in reports if not report.is_known]
    formats = sorted({report.format for report in reports})
    return ImportReport(
        path=path,
        format=", ".join(formats),
        num_files=len(reports),
        num_known_files=len(reports) - len(read),
        num_rows=sum(report.num_rows or 0 for report in read) if read else None,
        num_runs=sum(report.num_runs for report in read),
        results=sum((report.results for report in read), start=Imported()),
        skipped=merged_counts([report.skipped for report in read]),
        unread=merged_counts([report.unread for report in read]),
        mixed=merged_counts([report.mixed for report in read]),
        runner_spans=merged_spans(report.runner_spans for report in read),
        num_untimed=sum(report.num_untimed for report in reports),
        metrics=tuple(dict.fromkeys(metric for report in read for metric in report.metrics)),
        unit_changes=tuple(sorted({change for report in read for change in report.unit_changes})),
        is_known=not read,
    )
