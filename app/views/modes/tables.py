"""The answer, the tables and the chart rows of the page of modes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.app.components.result_matrix import DIMENSIONS, common_dimensions
from compile_hud.app.ui.format import (
    Scale,
    outcome_label,
    percent,
    percent_interval,
    quantity,
    scale_for,
)
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, interval_notes, table
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.app.views.modes.records import ModelCell, ModeRow, ModesPage, NumberWithInterval
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.shared.text import significant

EAGER = "eager"
# The floor of alerts: a smaller gain is not worth a compilation.
MIN_GAIN = 0.05
_NO_COMPILING = "do not compile"
# A sentence has room for so many names; the table below has all.
_NUM_NAMED = 4
_RATIO = Scale(1.0, "x")
_MODE_COLUMNS = (
    HtmlColumn(label="mode"),
    HtmlColumn(label="compile time", title="geometric mean over the cohort", is_number=True),
    HtmlColumn(label="peak memory", title="over that of eager; geometric mean", is_number=True),
    HtmlColumn(label="models", title="in the cohort, and ok in this mode", is_number=True),
    HtmlColumn(label="Pareto front", title="no other mode is better in one and worse in none"),
)
_CALLS_COLUMNS = (
    HtmlColumn(label="calls per process", is_number=True),
    HtmlColumn(label="best"),
    HtmlColumn(label="total time vs. eager", title="compiling included", is_number=True),
)


def answer(page: ModesPage, *, cache: str) -> tuple[str, list[str]]:
    """Return the recommendation as a heading, and sentences with its reason and its limits."""
    if not page.modes:
        return "No mode can be recommended", [
            f"No model has a speedup and a {cache} compile time in every mode, so the modes"
            " cannot be compared.",
            ("The table below says what each model lacks. " if page.rows else "")
            + "A filter that leaves fewer models out, or the other compile time, may show more.",
        ]
    best = next((mode for mode in page.modes if mode.variant == page.best), None)
    if best is None:
        return "Do not compile", [
            f"Over {_cohort(page.modes[0])} no mode pays back its {cache} compile time within a"
            " hundred million calls.",
        ]
    sentences = [*_failures(best, page), _reason(best, page, cache=cache), *_limits(best, page)]
    if best.speedup.value < 1 + MIN_GAIN or best.speedup.low <= 1:
        low, high = (100 * (end - 1) for end in (best.speedup.low, best.speedup.high))
        gain = percent_interval((low, high))
        best_gain = f"best gain {percent(100 * (best.speedup.value - 1))} {gain}"
        return f"No mode is worth compiling for here ({best_gain})", sentences
    failing = _named(_failing(best, page))
    title = f"Ship {_ran_always(best, page) or best.variant}"
    return f"{title}, but not for {failing}" if failing else title, sentences


def mode_table(page: ModesPage) -> str:
    """Return the results of each mode for the cohort, the fastest first, below those of eager."""
    scale = scale_for("s", [mode.compile_s.value for mode in page.modes])
    none = Cell(text="-", style="quiet")
    rows = [
        (
            Cell(text=mode.variant, style="strong wraps"),
            _spread_cell(mode.speedup, _RATIO),
            _spread_cell(mode.compile_s, scale),
            none if mode.memory is None else _spread_cell(mode.memory, _RATIO),
            Cell(
                text=f"{mode.num_common} of {mode.num_subjects}",
                notes=(Note(text=f"{mode.num_ok} ok"),),
            ),
            Cell(text=_front_text(mode), style="quiet wraps" if mode.beaten_by else "strong"),
        )
        for mode in page.modes
    ]
    rows += [
        (
            Cell(text=mode, style="wraps"),
            Cell(text=f"ran as {instead}", style="quiet wraps"),
            *(none, none, none, none),
        )
        for mode, instead in page.ran_as.items()
    ]
    title = "geometric mean over the cohort, over eager"
    name, *others = _MODE_COLUMNS
    columns = (name, HtmlColumn(label=page.speedup, title=title, is_number=True), *others)
    return table(columns, rows, label="modes over the common cohort")


def calls_table(page: ModesPage) -> str:
    """Return the best mode by number of calls per process."""
    ends = [span.from_calls for span in page.spans[1:]]
    rows = []
    for number, span in enumerate(page.spans):
        is_last = number == len(page.spans) - 1
        calls = f"from {about(span.from_calls)}" if number else "from 1"
        calls += "" if is_last else f" to {about(ends[number])}"
        best = _NO_COMPILING if span.variant == EAGER else span.variant
        time = f"{span.relative_time:.2f}x"
        note = "after many calls" if is_last else "at the first of these"
        notes = () if span.variant == EAGER else (Note(text=note),)
        rows.append(
            (Cell(text=calls), Cell(text=best, style="strong"), Cell(text=time, notes=notes))
        )
    return table(_CALLS_COLUMNS, rows, label="best mode by calls")


def model_table(
    page: ModesPage, cells: Mapping[str, LatestCell], *, num_shown: int | None = None
) -> str:
    """Return speedup and break-even of the first `num_shown` models (by default all), by mode.

    `cells` are by case key.
    """
    variants = list(dict.fromkeys(name for row in page.rows for name in row.cells))
    common = common_dimensions(row.case for row in page.rows)
    varied = [name for name in DIMENSIONS if name not in common]
    columns = [
        HtmlColumn(label="model"),
        *(HtmlColumn(label=name) for name in varied),
        *(
            HtmlColumn(
                label=name, title=f"{page.speedup} over eager, and break-even", is_number=True
            )
            for name in variants
        ),
    ]
    rows = [
        (
            Cell(text=row.case.model, style="strong", title=row.case.model),
            *(Cell(text=str(getattr(row.case, name))) for name in varied),
            *(_model_cell(row.cells.get(name), fastest, cells) for name in variants),
        )
        for row in page.rows[:num_shown]
        for fastest in (max((it.value for it in page.speedups(row)), default=None),)
    ]
    return table(columns, rows, label="speedup and break-even by model")


def chart_rows(page: ModesPage) -> list[dict[str, Any]]:
    """Return a row for each mode, by compile time: speedup, memory, whether it is on the front."""
    rows = [
        {
            "mode": mode.variant,
            "speedup": mode.speedup.value,
            "low": mode.speedup.low,
            "high": mode.speedup.high,
            "compile_s": mode.compile_s.value,
            "label": _chart_label(mode),
            "memory": "-" if mode.memory is None else f"{mode.memory.value:.2f}x of eager",
            "shown": f"{mode.speedup.value:.2f}x {_interval(mode.speedup)}".rstrip(),
            "compile": quantity(mode.compile_s.value, "s"),
            "is_front": not mode.beaten_by,
            # A mode that is on the front only for its memory lies below the line.
            "is_on_line": all(
                other.speedup.value <= mode.speedup.value
                for other in page.modes
                if other.compile_s.value < mode.compile_s.value
            ),
        }
        for mode in page.modes
    ]
    return sorted(rows, key=lambda row: float(str(row["compile_s"])))


def about(calls: float) -> str:
    """Return a number of calls with two significant digits: `1,300`, `45 million`."""
    rounded = float(f"{calls:.1e}")
    if rounded >= 1e6:
        return f"{significant(rounded / 1e6, digits=2)} million"
    return f"{rounded:,.0f}"


def _interval(speedup: NumberWithInterval) -> str:
    return Scale(1.0, "x").interval(speedup.low, speedup.high)


def _reason(best: ModeRow, page: ModesPage, *, cache: str) -> str:
    speed = f"{best.speedup.value:.2f}x as fast as eager {_interval(best.speedup)}".rstrip()
    text = (
        f"Over {_cohort(best)} {best.variant} is {speed}, for"
        f" {quantity(best.compile_s.value, 's')} of {cache} compile time"
    )
    if best.memory is not None:
        text += f" and {percent(100 * (best.memory.value - 1))} peak memory"
    others = [
        mode.variant
        for mode in page.modes
        if best.variant in mode.beaten_by and mode.speedup.high >= best.speedup.low
    ]
    if others:
        costs = "costs" if len(others) == 1 else "cost"
        text += f"; {', '.join(others)} cannot be told from it in speed and {costs} more"
    return f"{text}."


def _limits(best: ModeRow, page: ModesPage) -> list[str]:
    """Return sentences on the cases for which the recommendation does not hold."""
    sentences = []
    if len(page.spans) > 1:
        calls = about(page.spans[-1].from_calls)
        sentences.append(
            f"Compile time is recovered after about {calls} calls per process; below that,"
            f" {_below(page)}."
        )
    cells = [(row, row.cells.get(best.variant)) for row in page.rows]
    slower = [
        row.case.model for row, cell in cells if cell and cell.speedup and cell.speedup.low <= 1
    ]
    if slower:
        sentences.append(f"No significant speedup for {_named(slower)}.")
    if better := _better_elsewhere(best, page):
        sentences.append(f"Another mode is faster for {_named(better)}: see the table by model.")
    fallbacks = [row.case.model for row, cell in cells if cell and cell.ran_as]
    if instead := _ran_always(best, page):
        sentences.append(
            f"The device ran {instead} under the name {best.variant}, whose numbers these are."
        )
    elif fallbacks:
        sentences.append(f"For {_named(fallbacks)} the device ran another mode under this name.")
    return sentences


def _failing(best: ModeRow, page: ModesPage) -> list[str]:
    """Return the models that have no success in the mode, though the device has it."""
    cells = [(row.case.model, row.cells.get(best.variant)) for row in page.rows]
    return [
        model
        for model, cell in cells
        if cell is None or cell.missing or not cell.outcome.is_expected
    ]


def _failures(best: ModeRow, page: ModesPage) -> list[str]:
    failing = _named(_failing(best, page))
    return [f"No ok result for {failing} in the mode {best.variant}."] if failing else []


def _ran_always(best: ModeRow, page: ModesPage) -> str:
    """Return the single mode that ran for `best` in every ok case, "" without such."""
    cells = [row.cells.get(best.variant) for row in page.rows]
    ran = {cell.ran_as for cell in cells if cell is not None and cell.speedup is not None}
    return ran.pop() if len(ran) == 1 else ""


def _below(page: ModesPage) -> str:
    before = page.spans[-2].variant
    return "not compiling is faster in total" if before == EAGER else f"{before} is faster in total"


def _better_elsewhere(best: ModeRow, page: ModesPage) -> list[str]:
    texts = []
    for row in page.rows:
        own = row.cells.get(best.variant)
        high = own.speedup.high if own and own.speedup else math.inf
        if any(speedup.low > high for speedup in page.speedups(row)):
            texts.append(row.case.model)
    return texts


def _named(models: Sequence[str]) -> str:
    names = list(dict.fromkeys(models))
    more = len(names) - _NUM_NAMED
    return ", ".join(names[:_NUM_NAMED]) + (f" and {more} more" if more > 0 else "")


def _cohort(mode: ModeRow) -> str:
    if mode.num_common == mode.num_subjects == 1:
        return "the one model"
    return f"the {mode.num_common} of {mode.num_subjects} models that are ok in every mode"


def _front_text(mode: ModeRow) -> str:
    return f"no: {', '.join(mode.beaten_by)}" if mode.beaten_by else "yes"


def _chart_label(mode: ModeRow) -> str:
    memory = "" if mode.memory is None else f" ({mode.memory.value:.2f}x memory)"
    return f"{mode.variant}{memory}"


def _spread_cell(spread: NumberWithInterval, scale: Scale) -> Cell:
    # One compilation a model, and one peak, have no interval to show.
    notes = interval_notes(spread.low, spread.high, scale=scale)
    return Cell(text=scale.text(spread.value), notes=notes)


def _model_cell(
    cell: ModelCell | None, fastest: float | None, cells: Mapping[str, LatestCell]
) -> Cell:
    if cell is None:
        return Cell(text="-", style="quiet", title="not measured")
    latest = cells[cell.case.key]
    if cell.speedup is None:
        return Cell(
            text=cell.missing or outcome_label(cell.outcome),
            href=run_url(latest.run_id, case_key=cell.case.key),
            style="quiet wraps",
        )
    notes = [Note(text=_break_even_text(cell.break_even, speedup=cell.speedup))]
    if cell.ran_as:
        notes.append(Note(text=f"ran as {cell.ran_as}"))
    return Cell(
        text=f"{cell.speedup.value:.2f}x",
        href=series_url(
            cell.case.key, metric="speedup", machine=latest.machine, toolchain=latest.toolchain
        ),
        title=f"speedup {_interval(cell.speedup)}".rstrip(),
        style="strong wraps" if cell.speedup.value == fastest and fastest > 1 else "wraps",
        notes=tuple(notes),
    )


def _break_even_text(calls: NumberWithInterval | None, *, speedup: NumberWithInterval) -> str:
    if calls is None:
        return "never pays" if speedup.high < 1 else "no break-even"
    return f"after {about(calls.value)} [{about(calls.low)}, {about(calls.high)}] calls"
