"""Keep what lives long out of the search for garbage.

Streamlit searches all objects for garbage after every rerun of a page, however small. What lives
as long as the server, or as a page that somebody keeps open, is frozen: no search looks at it. What
became garbage since is found when all is thawed, searched once and frozen again.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

# A search looks at a million objects in about 0.1 s, and to freeze again takes one of all of them.
MAX_LOOSE: Final = 15_000
_CHECK_S: Final = 5.0


def freeze() -> None:
    """Free what is garbage, and let no later search look at what is left."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def settle() -> bool:
    """Freeze when more than MAX_LOOSE objects have come to stay; return whether they had."""
    has_grown = len(gc.get_objects()) > MAX_LOOSE
    if has_grown:
        freeze()
    return has_grown


@asynccontextmanager
async def settling(_app: Any) -> AsyncIterator[None]:
    """Settle every few seconds while the server runs."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(_CHECK_S):
            settle()

    threading.Thread(target=run, name="settling", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
