"""Memory that a process which stays running has no use for between two jobs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back_memory() -> None:
    """Give pages that hold nothing any more back to the system; do nothing where that is unknown.

    Reading and judging a history takes memory in many sizes and from many threads, and frees it
    again. The GNU C library gives back what is free at the end of a heap, not what lies between.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


# To open the library anew makes new classes.
@cache
def _malloc_trim() -> Callable[[int], int] | None:
    # Not in musl, nor on macOS.
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
