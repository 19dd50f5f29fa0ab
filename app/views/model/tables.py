"""The facts and the tables of the page of one model. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from compile_hud.app.components.alert_rows import ALERT_COLUMNS, alert_row, is_by_machine
from compile_hud.app.components.matrix.result_matrix import DIMENSIONS, Matrix
from compile_hud.app.ui.format import age, moment, outcome_label, quantity
from compile_hud.app.ui.html import Cell, HtmlColumn, long_table, table
from compile_hud.app.ui.urls import run_url
from compile_hud.app.views.model.records import CodeFact
from compile_hud.app.views.models.records import ModelHealth
from compile_hud.app.views.models.tables import compile_phase
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import ONGOING, worst_first
from compile_hud.db.shared.text import counted, short_revision, significant

# More trends are slow to draw; the page of trends has each of them.
MAX_TRENDS = 3
# The others are behind a line.
_MAX_FAILURES = 12
_HASH_LENGTH = 12
_PARAMETERS = "num_parameters"
_FAILURE_COLUMNS = (
    HtmlColumn(label="mode"),
    HtmlColumn(label="case", is_spare=True),
    HtmlColumn(label="outcome"),
    HtmlColumn(label="reason"),
    HtmlColumn(label="run"),
)


def state_chips(health: ModelHealth, *, cells: Sequence[LatestCell]) -> list[str]:
    """Return the state of a model in short texts."""
    num_ok = len(cells) - health.num_bad
    texts = [
        f"{num_ok} of {counted(len(cells), 'case')} pass",
        counted(health.num_open, "open alert") if health.num_open else "no open alert",
    ]
    if health.num_muted:
        texts.append(f"{health.num_muted} muted")
    if health.num_acknowledged:
        texts.append(f"{health.num_acknowledged} acknowledged")
    if health.num_by_machine:
        texts.append(f"{health.num_by_machine} attributed to the machine")
    return texts


def model_facts(
    health: ModelHealth, *, cells: Sequence[LatestCell], code: CodeFact | None, now: datetime
) -> list[tuple[str, Cell]]:
    """Return family, parameters, code and health of a model."""
    last_ok, phase = health.last_ok, compile_phase([health])
    compile_s = health.compile_s_by_phase.get(phase)
    pairs = [
        ("family", Cell(text=health.family)),
        ("parameters", _parameters_cell(cells)),
        *_code_pairs(code, now=now),
        (
            "last ok",
            Cell(text="never", style="strong")
            if last_ok is None
            else Cell(text=age(last_ok, now=now), title=moment(last_ok)),
        ),
        ("noise", Cell(text=_share_text(health.noise), title="typical night-to-night change")),
        (
            "cold compile",
            Cell(
                text="-" if compile_s is None else quantity(compile_s, "s"),
                title=f"mode default, median over the cases of {phase}",
            ),
        ),
    ]
    return [*pairs, *((name, Cell(text=", ".join(health.coverage[name]))) for name in DIMENSIONS)]


def _parameters_cell(cells: Sequence[LatestCell]) -> Cell:
    counts = {
        measured.median
        for cell in cells
        if (measured := cell.summary.measurements.get(_PARAMETERS))
    }
    if not counts:
        return Cell(text="-", style="quiet", title="not recorded")
    texts = [f"{number:,.0f}" for number in sorted(counts)]
    return Cell(text=_short_count(max(counts)), title=", ".join(texts))


def _short_count(number: float) -> str:
    for factor, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{significant(number / factor, digits=3)} {unit}"
    return f"{number:,.0f}"


def _code_pairs(code: CodeFact | None, *, now: datetime) -> list[tuple[str, Cell]]:
    if code is None:
        return [("code", Cell(text="-", style="quiet", title="no run recorded a revision"))]
    pairs = []
    if code.revision:
        text = short_revision(code.revision)
        pairs.append(("code", Cell(text=text, title=code.revision, style="revision")))
    if code.content_hash:
        text = code.content_hash[:_HASH_LENGTH]
        pairs.append(("content hash", Cell(text=text, title=code.content_hash)))
    when = age(code.since, now=now)
    title = moment(code.since)
    changed = Cell(text=when, href=run_url(code.run_id), title=title)
    if not code.has_changed:
        changed = Cell(text=f"none since {when}", title=title)
    return [*pairs, ("last code change", changed)]


def _share_text(share: float | None) -> str:
    return "-" if share is None else f"{significant(100 * share, digits=2)} %"


def case_matrix(matrix: Matrix) -> str:
    """Return the matrix of one model: its rows are named by what differs, not by the model."""
    if len(matrix.common) == len(DIMENSIONS):
        return table(matrix.columns[1:], [row[1:] for row in matrix.rows], label="cases")
    rows = [
        [
            Cell(text=cell.text, style="strong") if number == 0 else cell
            for number, cell in enumerate(row[1:])
        ]
        for row in matrix.rows
    ]
    return table(matrix.columns[1:], rows, label="cases")


def groups_of(cells: Sequence[LatestCell]) -> list[Case]:
    """Return a case of each phase, shape, dtype and device, in the order of their names."""
    by_group = {
        tuple(str(getattr(cell.summary.case, name)) for name in DIMENSIONS): cell.summary.case
        for cell in cells
    }
    return [by_group[key] for key in sorted(by_group)]


def group_label(case: Case) -> str:
    """Return phase, shape, dtype and device of a case."""
    return " / ".join(str(getattr(case, name)) for name in DIMENSIONS)


def alert_table(alerts: Sequence[Alert], *, now: datetime) -> str:
    """Return the ongoing alerts of a model without machine drift, the worst first; "" for none."""
    ongoing = [item for item in alerts if item.state in ONGOING and not is_by_machine(item)]
    regressions = [item for item in ongoing if item.verdict is Verdict.REGRESSION]
    others = [item for item in ongoing if item.verdict is not Verdict.REGRESSION]
    ordered = [*worst_first(regressions), *worst_first(others)]
    rows = [alert_row(item, now=now) for item in ordered]
    return table(ALERT_COLUMNS, rows, label="alerts") if rows else ""


def failure_table(cells: Sequence[LatestCell], *, now: datetime) -> str:
    """Return the cases that failed last time, the newest first; "" for none."""
    failed = [cell for cell in cells if not cell.summary.outcome.is_expected]
    failed.sort(key=lambda cell: cell.run_started_at, reverse=True)
    rows = [
        (
            Cell(
                text=cell.summary.case.variant,
                href=run_url(cell.run_id, case_key=cell.summary.case.key),
                style="strong",
                title=cell.summary.case.key,
            ),
            Cell(text=group_label(cell.summary.case)),
            Cell(text=outcome_label(cell.summary.outcome)),
            Cell(text=cell.summary.reason or "-", style="prose"),
            Cell(
                text=age(cell.run_started_at, now=now),
                href=run_url(cell.run_id),
                title=moment(cell.run_started_at),
            ),
        )
        for cell in failed
    ]
    if not rows:
        return ""
    return long_table(
        _FAILURE_COLUMNS, rows, label="failures", num_shown=_MAX_FAILURES, rest="older failures"
    )
