"""The dashboard imports no zoo, so what both know is compared here."""

from __future__ import annotations

from compile_hud.app.data.mode_summaries import MODE_ORDER
from compile_hud.db.records import results
from compile_hud.models_zoo.catalog.variants import MODES


def test_the_dashboard_orders_the_modes_of_the_zoo() -> None:
    assert MODE_ORDER == results.MODES == MODES
