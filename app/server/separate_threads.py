"""Threads of their own for slow routes.

The server answers every page from one pool of threads. Requests that draw, or wait for the store,
would take all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

Value = TypeVar("Value")
_LIMITERS: RunVar[dict[str, CapacityLimiter]] = RunVar("limiters of separate threads")


async def run_separately(name: str, function: Callable[[], Value]) -> Value:
    """Return the result of `function`, called in the only thread of this `name`."""
    limiters = _LIMITERS.get({})
    _LIMITERS.set(limiters)
    limiter = limiters.setdefault(name, CapacityLimiter(1))
    return await to_thread.run_sync(function, limiter=limiter)
