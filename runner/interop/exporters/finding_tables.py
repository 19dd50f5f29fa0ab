"""The findings of runs as CSV, a row each, with their run and their case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import CaseResult, Run, RunDocument
from compile_hud.runner.analysis.findings.documents import run_findings
from compile_hud.runner.interop.exporters.flat_tables import (
    SCHEMA,
    case_cells,
    csv_cell,
    csv_line,
    run_cells,
)

_NAMES = ("finding", "cost_s", "text", "module", "line", "operators", "remedy")
# The columns of a measurement's run and case, then those of the finding.
_HEADER = (*SCHEMA.names[: SCHEMA.names.index("metric")], *_NAMES)


def to_findings_csv(
    documents: Iterable[RunDocument], *, is_chosen: Callable[[str], bool] = lambda _key: True
) -> Iterator[bytes]:
    """Yield a CSV file with a header; a cost that was not measured is empty.

    `documents` must have kernels. Only cases whose key `is_chosen` have rows.
    """
    yield csv_line(_HEADER)
    for document in documents:
        findings = run_findings(document)
        for result in document.results:
            if not is_chosen(result.case.key):
                continue
            for finding in findings[result.id]:
                row = _row(document.run, result, finding)
                yield csv_line([csv_cell(row[name]) for name in _HEADER])


def _row(run: Run, result: CaseResult, finding: Finding) -> dict[str, object]:
    where = finding.where
    cells = (
        finding.code,
        finding.cost_s,
        finding.text,
        where.module,
        where.line,
        " ".join(where.operators),
        finding.remedy,
    )
    return {**run_cells(run), **case_cells(result), **dict(zip(_NAMES, cells, strict=True))}
