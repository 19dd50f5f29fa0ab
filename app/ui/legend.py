"""A drawn legend: each sign of a chart with its words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compile_hud.app.ui.html import escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendItem:
    """A sign, one of `band`, `diamond`, `dashed`, `up` and `down`, and its words."""

    sign: str
    text: str


def legend(items: Iterable[LegendItem]) -> str:
    """Return the signs of a chart in a row, each before its words."""
    shown = "".join(
        f'<span class="hud-sign"><i class="sign-{item.sign}"></i>{escaped(item.text)}</span>'
        for item in items
    )
    return f'<div class="hud-signs">{shown}</div>'
