"""Exclude long-lived objects from garbage collection.

Streamlit collects garbage over all objects after every rerun of a page, however small. Objects that
live as long as the server or an open page are frozen, so no collection visits them. Frozen garbage
is freed when all objects are unfrozen, collected once and frozen again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from compile_hud.db.shared.lasting_steps import LastingSteps

# A collection visits a million objects in about 0.1 s, and freezing again takes a collection of all
# objects.
MAX_LOOSE: Final = 15_000
_CHECK_S: Final = 5.0


def freeze() -> None:
    """Free all garbage, and exclude the remaining objects from later collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def settle() -> bool:
    """Freeze if there are more than MAX_LOOSE new objects; return True if so."""
    has_grown = len(gc.get_objects()) > MAX_LOOSE
    if has_grown:
        freeze()
    return has_grown


@asynccontextmanager
async def settling(_app: Any) -> AsyncIterator[None]:
    """Run `settle` every few seconds while the server runs."""
    is_over = threading.Event()
    steps = LastingSteps("settling")

    def run() -> None:
        while not is_over.wait(_CHECK_S):
            steps.run(settle)

    threading.Thread(target=run, name="settling", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
