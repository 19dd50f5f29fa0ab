"""Findings as a table: cost, cause, location, evidence and remedy. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.app.ui.format import Scale, quantity, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, table
from compile_hud.app.ui.urls import kernel_url_id, kernels_url
from compile_hud.db.records.findings import Exhibit, Finding
from compile_hud.db.shared.text import counted, shortened, significant

# A row lists the longest kernels; the page of kernels has the rest.
_NUM_KERNELS = 3
_NAME_LENGTH = 60
FINDINGS_CAPTION = (
    "Costs are measured. Each second belongs to one finding; slower-than-eager is the total of the"
    " others and a rest."
)


def findings_table(
    findings: Sequence[Finding], *, run_id: str, case_key: str, latency_s: float | None
) -> str:
    """Return a row for each finding of a case in one run."""
    costs = [finding.cost_s for finding in findings if finding.cost_s is not None]
    scale = scale_for("s", costs)
    columns = (
        HtmlColumn(label=f"findings: {len(findings)}"),
        HtmlColumn(label=f"cost ({scale.unit})", is_number=True, title="in each iteration"),
        HtmlColumn(label="cause"),
        HtmlColumn(label="remedy"),
    )
    rows = [
        (
            Cell(text=finding.code, style="strong"),
            _cost(finding, scale=scale, latency_s=latency_s),
            Cell(
                text=finding.text,
                style="prose whole coded",
                notes=tuple(_notes(finding, run_id=run_id, case_key=case_key)),
            ),
            Cell(text=finding.remedy, style="prose whole coded"),
        )
        for finding in findings
    ]
    return table(columns, rows, label="findings")


def _cost(finding: Finding, *, scale: Scale, latency_s: float | None) -> Cell:
    if finding.cost_s is None:
        return Cell(text="-", notes=(Note(text=finding.missing_cost_text),))
    share = f"{100 * finding.cost_s / latency_s:.0f} % of the latency" if latency_s else ""
    return Cell(
        text=significant(finding.cost_s / scale.factor),
        notes=(Note(text=share),) if share else (),
    )


def _notes(finding: Finding, *, run_id: str, case_key: str) -> list[Note]:
    where = finding.where.text
    kernels = [item for item in finding.evidence if item.kind == "kernel"]
    notes = [Note(text=where)] if where else []
    notes += [
        Note(
            text=_kernel_text(exhibit),
            href=kernels_url(run_id, case_key=case_key, kernel=_kernel_id(exhibit)),
        )
        for exhibit in kernels[:_NUM_KERNELS]
    ]
    if len(kernels) > _NUM_KERNELS:
        notes.append(Note(text=f"and {counted(len(kernels) - _NUM_KERNELS, 'more kernel')}"))
    return notes


def _kernel_id(exhibit: Exhibit) -> str:
    names = ("library", "shapes", "source_hash")
    return kernel_url_id(exhibit.name, *(str(exhibit.facts.get(name, "")) for name in names))


def _kernel_text(exhibit: Exhibit) -> str:
    name = shortened(str(exhibit.facts.get("label") or exhibit.name), limit=_NAME_LENGTH)
    if exhibit.value is None:
        return name
    return f"{name}: {quantity(exhibit.value, 's')} in the profile"
