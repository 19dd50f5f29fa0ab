"""The memory of a long-lived process: one heap, whose free pages go back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

# The constant is from malloc.h of the GNU C library.
_M_ARENA_MAX = -8


def use_one_heap() -> None:
    """Let all threads allocate from one heap; do nothing if the C library cannot.

    By default the GNU C library gives each thread its own heap. A heap keeps every page with a live
    object, so a process that reads in threads for months grows. Existing heaps remain; call this
    before the first thread starts.
    """
    # musl and macOS lack this function.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return free pages to the system; do nothing if the C library cannot.

    Reading and judging a history allocates and frees memory in many sizes and threads. The GNU C
    library returns only the free end of a heap, not the gaps in it.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


# Opening the library a second time would create new classes.
@cache
def _malloc_trim() -> Callable[[int], int] | None:
    # musl and macOS lack this function.
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
