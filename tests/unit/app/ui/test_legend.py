"""The drawn legend."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from compile_hud.app.ui.legend import LegendItem, legend
from compile_hud.app.ui.theme import (
    KIND_COLOURS,
    KIND_SHAPES,
    NEUTRAL,
    REGRESSION,
    SIGNS,
    style_sheet,
)
from compile_hud.db.records.kernels import KINDS


def test_each_sign_stands_before_its_words_in_order() -> None:
    shown = legend(
        [LegendItem(sign="hollow", text="a < b"), LegendItem(sign="cell cell-bad", text="slower")]
    )
    assert re.findall(r'<i class="([^"]*)"></i>([^<]*)', shown) == [
        ("sign-hollow", "a &lt; b"),
        ("cell cell-bad", "slower"),
    ]


def test_a_chart_without_signs_has_no_legend() -> None:
    assert legend([]) == ""


@pytest.mark.parametrize("name", SIGNS)
def test_the_style_sheet_draws_each_sign(name: str) -> None:
    opening = rf'\.sign-{name} {{ background-image: url\("data:image/svg\+xml,'
    style = re.search(rf'{opening}(.*?)"', style_sheet())
    assert style is not None
    svg = unquote(style[1])
    assert re.findall(' d="([^"]*)"', svg) == [shape.path for shape in SIGNS[name]]


def test_signs_have_the_colours_of_the_charts() -> None:
    fills = {name: shapes[-1].fill for name, shapes in SIGNS.items()}
    assert fills["up"] == REGRESSION
    assert fills["bar-grey"] == NEUTRAL
    assert f".hud-waterfall .bar > div {{ background: {NEUTRAL}; }}" in style_sheet()
    assert all(KIND_COLOURS[kind] == fills[f"kind-{kind}"] for kind in KIND_SHAPES)


def test_every_kind_of_kernel_has_a_shape_of_its_own() -> None:
    assert set(KIND_SHAPES) == set(KINDS)
    assert len(set(KIND_SHAPES.values())) == len(KINDS)
