"""The tables and the chart rows of the page of modes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from compile_hud.app.ui.format import Scale, quantity, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, interval_notes, table
from compile_hud.app.ui.urls import ModesState, cases_url
from compile_hud.app.views.modes.data import GroupSection
from compile_hud.db.shared.text import plural
from compile_hud.runner.analysis.modes.answers import (
    about,
    calls_text,
    front_text,
    gain_text,
    ratio_text,
    shipped_mode,
)
from compile_hud.runner.analysis.modes.records import (
    ModeDecision,
    ModeGroup,
    ModelException,
)
from compile_hud.runner.analysis.stats.estimates import Estimate

EAGER = "eager"
NO_COMPILING = "do not compile"
_NONE = Cell(text="-", style="quiet")
_RATIO = Scale(1.0, "x")
_CALLS_COLUMNS = (
    HtmlColumn(label="calls per process", is_number=True),
    HtmlColumn(label="best"),
    HtmlColumn(label="total time vs. eager", title="compiling included", is_number=True),
)
_ALL_SLOWER = "none is faster than eager"
_NO_ANSWERS = {
    ModeDecision.NO_GAIN: "gain too small",
    ModeDecision.TOO_FEW_CALLS: "too few calls",
    ModeDecision.NO_COHORT: "no common model",
}


def overview_table(sections: Sequence[GroupSection], *, state: ModesState) -> str:
    """Return the answer for each group, with its gain and its break-even."""
    names = [_dimensions(section.group) for section in sections]
    num_calls = state.num_calls
    columns = [
        HtmlColumn(label="results"),
        HtmlColumn(label="answer"),
        HtmlColumn(
            label="gain",
            title="of the recommended mode, else of the one that comes closest",
            is_number=True,
        ),
        HtmlColumn(label="break-even", title="calls per process", is_number=True),
        *(
            []
            if num_calls is None
            else [
                HtmlColumn(
                    label=f"time of {num_calls:,} {plural(num_calls, 'call')}",
                    title="compiling included, over eager's",
                    is_number=True,
                )
            ]
        ),
        HtmlColumn(label="models", title="with a result in a mode", is_number=True),
    ]
    rows = [
        _overview_row(section.group, name, state=state)
        for section, name in zip(sections, names, strict=True)
    ]
    return table(columns, rows, label="answers by group")


def _overview_row(group: ModeGroup, name: str, *, state: ModesState) -> tuple[Cell, ...]:
    recommendation = group.recommendation
    best = recommendation.best
    ships = shipped_mode(group)
    notes = [Note(text=_exception_note(item)) for item in recommendation.exceptions]
    if not ships:
        has_loss = best is not None and best.speedup.value <= 1
        is_slower = recommendation.decision is ModeDecision.NO_GAIN and has_loss
        notes = [Note(text=_ALL_SLOWER if is_slower else _NO_ANSWERS[recommendation.decision])]
    time = recommendation.relative_time
    return (
        Cell(text=name, href=cases_url(replace(state, group=group.key))),
        Cell(text=ships or NO_COMPILING, style="strong" if ships else "quiet", notes=tuple(notes)),
        Cell(text=gain_text(best.speedup)) if best else _NONE,
        Cell(text=calls_text(best.break_even)) if best and best.break_even else _NONE,
        *(
            ()
            if state.num_calls is None
            else (_NONE if time is None else Cell(text=f"{time:.2f}x"),)
        ),
        Cell(text=str(len(group.models)), title=", ".join(group.models)),
    )


def _exception_note(item: ModelException) -> str:
    mode = item.mode.variant if item.mode else EAGER
    return f"{mode} for {item.model}: {item.reason or 'not measured'}"


def _dimensions(group: ModeGroup) -> str:
    return group.label or group.key


def section_title(section: GroupSection) -> str:
    """Return the answer of a group behind its name, if there are several groups."""
    label = section.group.label
    return f"{label}: {section.answer.title}" if label else section.answer.title


def mode_table(group: ModeGroup) -> Markup:
    """Return the results of each mode for the cohort, the fastest first."""
    modes = group.choice.modes
    scale = scale_for("s", [mode.compile_s.value for mode in modes])
    rows = [
        (
            Cell(text=mode.variant, style="strong wraps"),
            _spread_cell(mode.speedup, _RATIO),
            _spread_cell(mode.compile_s, scale),
            _NONE if mode.memory is None else _spread_cell(mode.memory, _RATIO),
            _NONE if mode.break_even is None else _calls_cell(mode.break_even),
            Cell(
                text=f"{len(group.choice.cohort)} of {len(group.models)}",
                notes=(Note(text=f"{group.num_ok(mode.variant)} ok"),),
            ),
            Cell(
                text=front_text(mode),
                style="strong wraps" if mode.is_on_front else "quiet wraps",
            ),
        )
        for mode in modes
    ]
    reasons = {
        **{mode: group.stand_in_text(mode) for mode in group.stand_ins},
        **dict.fromkeys(group.unavailable, "not available on this device"),
        **{
            mode: f"not compared: {number} of {len(group.models)} ok"
            for mode, number in group.sparse.items()
        },
    }
    rows += [
        (
            Cell(text=mode, style="wraps"),
            Cell(text=reason, style="quiet wraps"),
            *(_NONE,) * 5,
        )
        for mode, reason in reasons.items()
    ]
    columns = (
        HtmlColumn(label="mode"),
        HtmlColumn(
            label=group.speedup, title="geometric mean over the cohort, over eager", is_number=True
        ),
        HtmlColumn(label="compile time", title="geometric mean over the cohort", is_number=True),
        HtmlColumn(label="peak memory", title="over that of eager; geometric mean", is_number=True),
        HtmlColumn(label="break-even", title="calls per process", is_number=True),
        HtmlColumn(label="models", title="in the cohort, and ok in this mode", is_number=True),
        HtmlColumn(label="Pareto front", title="no other mode is better in one and worse in none"),
    )
    return table(columns, rows, label="modes over the common cohort")


def calls_table(group: ModeGroup) -> Markup:
    """Return the best mode by number of calls per process."""
    spans = group.choice.spans
    rows = []
    for number, span in enumerate(spans):
        is_last = number == len(spans) - 1
        calls = f"from {about(span.from_calls)}" if number else "from 1"
        calls += "" if is_last else f" to {about(spans[number + 1].from_calls)}"
        best = NO_COMPILING if span.variant == EAGER else span.variant
        time = f"{span.relative_time:.2f}x"
        note = "after many calls" if is_last else "at the first of these"
        notes = () if span.variant == EAGER else (Note(text=note),)
        rows.append(
            (Cell(text=calls), Cell(text=best, style="strong"), Cell(text=time, notes=notes))
        )
    return table(_CALLS_COLUMNS, rows, label="best mode by calls")


def chart_rows(group: ModeGroup) -> list[dict[str, Any]]:
    """Return a row for each mode, by compile time: speedup, memory, membership in the front.

    The line joins the modes of the front, without those that only their memory keeps there.
    """
    rows = [
        {
            "mode": mode.variant,
            "speedup": mode.speedup.value,
            "low": mode.speedup.low,
            "high": mode.speedup.high,
            "compile_s": mode.compile_s.value,
            "label": _chart_label(mode.variant, mode.memory),
            "memory": "-" if mode.memory is None else f"{mode.memory.value:.2f}x of eager",
            "shown": ratio_text(mode.speedup),
            "compile": quantity(mode.compile_s.value, "s"),
            "front": front_text(mode),
            "is_front": mode.is_on_front,
            "is_on_line": mode.is_on_line,
        }
        for mode in group.choice.modes
    ]
    return sorted(rows, key=lambda row: float(str(row["compile_s"])))


def _chart_label(variant: str, memory: Estimate | None) -> str:
    return variant if memory is None else f"{variant} ({memory.value:.2f}x memory)"


def _spread_cell(spread: Estimate, scale: Scale) -> Cell:
    # One compilation a model, and one peak, have no interval to show.
    notes = interval_notes(spread.low, spread.high, scale=scale)
    return Cell(text=scale.text(spread.value), notes=notes)


def _calls_cell(calls: Estimate) -> Cell:
    value, _, interval = calls_text(calls).partition(" [")
    return Cell(text=value, notes=(Note(text=f"[{interval}"),) if interval else ())
