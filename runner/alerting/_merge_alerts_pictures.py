"""Trends as pictures for the receivers that are sent them with a message."""

from __future__ import annotations

import functools
import importlib.util

from compile_hud.db.shared.trend_images import draw_trends
from compile_hud.runner.notifications.dispatcher import Draw, draw_nothing
from compile_hud.runner.workspace import Workplace

_NEEDED = ("streamlit", "altair", "vl_convert")


def make_draw(workplace: Workplace) -> Draw:
    """Return what draws trends; it draws nothing where the dashboard is not installed."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        return draw_nothing
    return functools.partial(draw_trends, store_url=workplace.config.store_url)
