"""A drawn legend: each sign of a chart with its words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from compile_hud.app.ui.templates.environment import render


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendItem:
    """A sign, and its words.

    The sign is one of SIGNS in theme.py, or `cell` and the class of a fill, as in `cell cell-bad`.
    """

    sign: str
    text: str


def legend(items: Iterable[LegendItem]) -> Markup:
    """Return the signs of a chart in a row, each before its words; "" for none."""
    shown = [(_style(item.sign), item.text) for item in items]
    return render("bars.html", "legend", items=shown) if shown else Markup()


def _style(sign: str) -> str:
    return sign if sign.startswith("cell ") else f"sign-{sign}"
