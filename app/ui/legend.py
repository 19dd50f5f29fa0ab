"""A drawn legend: each sign of a chart with its words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compile_hud.app.ui.html import escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendItem:
    """A sign, and its words.

    The sign is one of SIGNS in theme.py, or `cell` and the class of a fill, as in `cell cell-bad`.
    """

    sign: str
    text: str


def legend(items: Iterable[LegendItem]) -> str:
    """Return the signs of a chart in a row, each before its words; "" for none."""
    shown = "".join(
        f'<li class="hud-sign"><i class="{_style(item.sign)}"></i>{escaped(item.text)}</li>'
        for item in items
    )
    return f'<ul class="hud-signs" aria-label="Legend">{shown}</ul>' if shown else ""


def _style(sign: str) -> str:
    return sign if sign.startswith("cell ") else f"sign-{sign}"
