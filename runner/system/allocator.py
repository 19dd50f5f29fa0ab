"""The memory of a process that stays running: one heap, and what is free given back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

# Of malloc.h of the GNU C library.
_M_ARENA_MAX = -8


def use_one_heap() -> None:
    """Let all threads allocate from one heap; do nothing where that is unknown.

    By default the GNU C library gives threads heaps of their own. Each keeps the pages that
    anything small still lies in, and who reads in threads for months has more and more of them.
    Heaps that are there already stay, so this comes before the first thread.
    """
    # Not in musl, nor on macOS.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


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
