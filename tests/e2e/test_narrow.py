"""Tables that are as wide as they get, in a window of 800 pixels."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from compile_hud.app.ui.theme import style_sheet
from compile_hud.app.ui.urls import ModesState
from compile_hud.app.views.modes.data import modes_page
from compile_hud.app.views.modes.tables import (
    calls_table,
    mode_table,
    overview_table,
)
from compile_hud.db.records.summaries import LatestCell
from tests.support.builders import make_case
from tests.support.pages.dashboard import window
from tests.support.records.page_results import latest

pytestmark = pytest.mark.slow

# Of the window, without the margins of a page.
_WIDTH = 755
_EAGER_S = 1e-4
_SPEEDUPS = {
    "default": 1.025,
    "reduce-overhead": 1.026,
    "max-autotune": 1.027,
    "max-autotune-no-cudagraphs": 1.024,
}


def _cells(model: str) -> list[LatestCell]:
    """Return results of a model that every mode makes faster by so little that numbers are long."""
    values = {"compile_cold_s": 123.4, "peak_bytes": 1e9}
    return [
        latest(make_case(model, mode="eager"), values={"latency_s": _EAGER_S, "peak_bytes": 1e9}),
        *(
            latest(
                make_case(model, mode=mode),
                values={"latency_s": _EAGER_S / ratio, "speedup": ratio, **values},
            )
            for mode, ratio in _SPEEDUPS.items()
        ),
    ]


def test_the_tables_of_modes_fit(browser: Browser) -> None:
    cells = [cell for model in ("bert", "nn_transformer_encoder") for cell in _cells(model)]
    page = modes_page(cells, alerts=(), state=ModesState())
    assert page is not None
    group = page.sections[0].group
    tables = mode_table(group) + calls_table(group)
    tables += overview_table(page.in_order, state=ModesState(calls="20000"))
    with window(browser, width=800) as context:
        view = context.new_page()
        view.set_content(
            f'<style>{style_sheet()}</style><div style="width:{_WIDTH}px">{tables}</div>'
        )
        widths = view.evaluate(
            "[...document.querySelectorAll('.hud-scroll')].map(box => box.scrollWidth)"
        )
    assert len(widths) == 3
    assert max(widths) <= _WIDTH
