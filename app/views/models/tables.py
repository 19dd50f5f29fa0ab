"""The tables of the page of models. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from compile_hud.app.components.result_matrix import DIMENSIONS, variants_in_order
from compile_hud.app.ui.format import Scale, age, moment, outcome_label, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, table
from compile_hud.app.ui.urls import OverviewState, overview_url, run_url, series_url
from compile_hud.app.views.models.records import ModeHealth, ModelHealth
from compile_hud.db.records.results import Outcome
from compile_hud.db.shared.text import counted, significant

_NO_SUMMARY = "no description was stored with its results"
_ALERTS_TITLE = "open regressions; muted ones and those by machine drift are counted apart"
_MODE_TITLE = "cases that are ok, of all; the others are named"
_MODEL_COLUMNS = (
    HtmlColumn(label="model", title="opens its results in the overview"),
    HtmlColumn(label="what it covers", title="the catalog's text on the model", is_brief=True),
)


def models_title(healths: Sequence[ModelHealth]) -> str:
    """Return the number of models, and of those with a bad case."""
    num_bad = sum(bool(item.num_bad) for item in healths)
    models = counted(len(healths), "model")
    if not num_bad:
        return f"{models}: no case fails or is missing"
    verb = "has" if num_bad == 1 else "have"
    return f"{num_bad} of {models} {verb} cases that fail or are missing"


def models_table(
    healths: Sequence[ModelHealth], *, now: datetime, machine: str, toolchain: str, num_shown: int
) -> str:
    """Return a line for each of the first models.

    Those with open alerts and with bad cases come first.
    """
    variants = variants_in_order(mode.case for item in healths for mode in item.modes)
    varied = [
        name
        for name in DIMENSIONS
        if len({item.coverage[name] for item in healths}) > 1
        or any(len(item.coverage[name]) > 1 for item in healths)
    ]
    scale = scale_for("s", [item.compile_s for item in healths if item.compile_s is not None])
    columns = [
        *_MODEL_COLUMNS,
        HtmlColumn(label="open alerts", title=_ALERTS_TITLE, is_number=True),
        *(HtmlColumn(label=name, title=_MODE_TITLE, is_number=True) for name in variants),
        HtmlColumn(label="last ok", is_number=True),
        HtmlColumn(label="noise", title="typical night-to-night change", is_number=True),
        HtmlColumn(label="cold compile", title="of mode default; median", is_number=True),
        *([HtmlColumn(label="coverage", is_spare=True)] if varied else []),
    ]
    ordered = sorted(healths, key=lambda item: (-item.num_open, -item.num_bad, item.model))
    rows = []
    for item in ordered[:num_shown]:
        modes = {mode.variant: mode for mode in item.modes}
        state = OverviewState(machine=machine, toolchain=toolchain, model=item.model)
        rows.append(
            (
                Cell(
                    text=item.model,
                    href=overview_url(state),
                    style="strong",
                    title=item.model,
                    notes=(Note(text=item.family),),
                ),
                Cell(
                    text=item.summary or _NO_SUMMARY,
                    style="prose" if item.summary else "prose quiet",
                    title=item.summary,
                ),
                _alerts_cell(item, href=overview_url(state)),
                *(
                    _mode_cell(modes.get(name), machine=machine, toolchain=toolchain)
                    for name in variants
                ),
                _last_ok_cell(item, now=now),
                Cell(
                    text="-"
                    if item.noise is None
                    else f"{significant(100 * item.noise, digits=2)} %"
                ),
                _compile_cell(item, scale),
                *([Cell(text=_coverage_text(item, varied), style="prose quiet")] if varied else []),
            )
        )
    return table(columns, rows, label="models")


def _alerts_cell(item: ModelHealth, *, href: str) -> Cell:
    counts = ((item.num_muted, "muted"), (item.num_by_machine, "by the machine"))
    notes = tuple(Note(text=f"{number} {name}") for number, name in counts if number)
    if not item.num_open:
        return Cell(text="0", style="quiet", notes=notes)
    return Cell(text=str(item.num_open), href=href, style="bad", notes=notes)


def _mode_cell(mode: ModeHealth | None, *, machine: str, toolchain: str) -> Cell:
    if mode is None:
        return Cell(text="-", style="quiet", title="not measured")
    num_ok = mode.num_by_state.get(Outcome.OK, 0)
    states = [
        f"{number} {outcome_label(state)}"
        for state, number in mode.num_by_state.items()
        if state != Outcome.OK
    ]
    text = f"{num_ok} of {mode.num_cases}"
    if len(mode.num_by_state) == 1 and (mode.num_cases == 1 or not num_ok):
        text, states = outcome_label(next(iter(mode.num_by_state))), []
    href = run_url(mode.run_id, case_key=mode.case.key)
    if num_ok and not mode.num_bad:
        href = series_url(mode.case.key, machine=machine, toolchain=toolchain)
    return Cell(
        text=text,
        href=href,
        style="strong" if mode.num_bad else "quiet",
        title=mode.case.key,
        notes=tuple(Note(text=state) for state in states),
    )


def _last_ok_cell(item: ModelHealth, *, now: datetime) -> Cell:
    if item.last_ok is None:
        return Cell(text="never", style="strong")
    return Cell(text=age(item.last_ok, now=now), title=moment(item.last_ok))


def _compile_cell(item: ModelHealth, scale: Scale) -> Cell:
    return Cell(text="-" if item.compile_s is None else scale.text(item.compile_s))


def _coverage_text(item: ModelHealth, varied: Sequence[str]) -> str:
    return "; ".join(", ".join(item.coverage[name]) for name in varied)
