"""The table of the page of models. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS, variants_in_order
from compile_hud.app.components.table.columns import (
    DataTable,
    Link,
    LinkColumn,
    NumberColumn,
    ShareColumn,
    TextColumn,
    TimeColumn,
    TrendColumn,
    data_table,
)
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.urls import model_url, run_url, series_url
from compile_hud.app.views.models.records import ModeHealth, ModelHealth
from compile_hud.db.records.results import Outcome, Phase
from compile_hud.db.shared.text import counted

_ALERTS_HELP = "open regressions, without muted ones and those attributed to the machine"
_MODE_HELP = "cases that are ok, of all; opens the first bad case, else the first"
_SUMMARY_WIDTH, _TREND_WIDTH, _BAR_WIDTH = 280, 110, 110


def models_title(healths: Sequence[ModelHealth]) -> str:
    """Return the number of models, and of those with a bad case."""
    num_bad = sum(bool(item.num_bad) for item in healths)
    models = counted(len(healths), "model")
    if not num_bad:
        return f"{models}: no case fails or is missing"
    verb = "has" if num_bad == 1 else "have"
    return f"{num_bad} of {models} {verb} cases that fail or are missing"


def compile_phase(healths: Iterable[ModelHealth]) -> str:
    """Return the phase whose compile time is shown: inference, or the only one without it."""
    phases = {phase for item in healths for phase in item.coverage["phase"]}
    inference = str(Phase.INFERENCE)
    return inference if inference in phases else min(phases, default="")


def models_table(healths: Sequence[ModelHealth], *, machine: str, toolchain: str) -> DataTable:
    """Return a row for each model; those with open alerts and with bad cases come first."""
    variants = variants_in_order(mode.case for item in healths for mode in item.modes)
    varied = [
        name
        for name in DIMENSIONS
        if len({item.coverage[name] for item in healths}) > 1
        or any(len(item.coverage[name]) > 1 for item in healths)
    ]
    has_other_alerts = any(map(_other_alerts, healths))
    phase = compile_phase(healths)
    columns = (
        LinkColumn(label="model", help="opens its page", is_pinned=True),
        NumberColumn(label="open alerts", help=_ALERTS_HELP),
        *([TextColumn(label="other alerts")] if has_other_alerts else []),
        ShareColumn(label="passed", help="cases that neither fail nor miss", width=_BAR_WIDTH),
        *(LinkColumn(label=name, help=_MODE_HELP) for name in variants),
        TrendColumn(
            label="latency", help="mode default, last runs of one case", width=_TREND_WIDTH
        ),
        NumberColumn(label="noise", help="typical night-to-night change", unit="share"),
        NumberColumn(
            label="cold compile",
            help=f"mode default, median over the cases of {phase}",
            unit="s",
        ),
        TimeColumn(label="last ok"),
        LinkColumn(label="history", help="the series of a case"),
        TextColumn(label="family"),
        *([TextColumn(label="coverage")] if varied else []),
        TextColumn(label="description", help="the catalog's text on it", width=_SUMMARY_WIDTH),
    )
    ordered = sorted(healths, key=lambda item: (-item.num_open, -item.num_bad, item.model))
    rows = []
    for item in ordered:
        modes = {mode.variant: mode for mode in item.modes}
        href = model_url(item.model, machine=machine, toolchain=toolchain)
        rows.append(
            (
                Link(item.model, href),
                item.num_open,
                *([_other_alerts(item)] if has_other_alerts else []),
                1 - item.num_bad / sum(mode.num_cases for mode in item.modes),
                *(_mode_link(modes.get(name)) for name in variants),
                item.trend,
                item.noise,
                item.compile_s_by_phase.get(phase),
                item.last_ok,
                _history_link(item, machine=machine, toolchain=toolchain),
                item.family,
                *([_coverage_text(item, varied)] if varied else []),
                item.summary or None,
            )
        )
    return data_table(columns, rows, label="models")


def _other_alerts(item: ModelHealth) -> str | None:
    counts = (
        (item.num_acknowledged, "acknowledged"),
        (item.num_muted, "muted"),
        (item.num_by_machine, "attributed to the machine"),
    )
    return ", ".join(f"{number} {name}" for number, name in counts if number) or None


def _mode_link(mode: ModeHealth | None) -> Link | None:
    """Return the counts of a mode with a link to its first bad case; None if not measured."""
    if mode is None:
        return None
    return Link(_mode_text(mode), run_url(mode.run_id, case_key=mode.case.key))


def _mode_text(mode: ModeHealth) -> str:
    """Return the number of ok cases of a mode, and the others by name."""
    num_ok = mode.num_by_state.get(Outcome.OK, 0)
    if len(mode.num_by_state) == 1 and (mode.num_cases == 1 or not num_ok):
        return outcome_label(next(iter(mode.num_by_state)))
    others = [
        f"{number} {outcome_label(state)}"
        for state, number in mode.num_by_state.items()
        if state != Outcome.OK
    ]
    return ", ".join([f"{num_ok} of {mode.num_cases}", *others])


def _history_link(item: ModelHealth, *, machine: str, toolchain: str) -> Link | None:
    good = [mode for mode in item.modes if mode.num_by_state.get(Outcome.OK) and not mode.num_bad]
    compiled = [mode for mode in good if not mode.case.is_eager]
    mode = next(iter(compiled or good), None)
    if mode is None:
        return None
    return Link(mode.variant, series_url(mode.case.key, machine=machine, toolchain=toolchain))


def _coverage_text(item: ModelHealth, varied: Sequence[str]) -> str:
    return "; ".join(", ".join(item.coverage[name]) for name in varied)
