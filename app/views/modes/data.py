"""Comparison of the compile modes over the latest results: calls the analysis. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.app.ui.urls import ModesState
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.summaries import LatestCell
from compile_hud.runner.analysis.modes.answers import answer_for, summary_of
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.modes.records import Answer, ModeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSection:
    """A group of results and its answer."""

    group: ModeGroup
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesPage:
    """One line on all groups, the sections with the opened one first, and those in their order."""

    title: str
    sections: tuple[GroupSection, ...]
    in_order: tuple[GroupSection, ...]


def modes_page(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert], state: ModesState
) -> ModesPage | None:
    """Return the comparison of the modes in each group, None if no group has a mode.

    `cells` and `alerts` are of one machine and one toolchain.
    """
    groups = compare_modes(cells, alerts=alerts, cache=state.cache, calls=state.num_calls)
    if not groups:
        return None
    in_order = tuple(GroupSection(group=group, answer=answer_for(group)) for group in groups)
    return ModesPage(
        title=summary_of(groups),
        sections=tuple(sorted(in_order, key=lambda item: item.group.key != state.group)),
        in_order=in_order,
    )
