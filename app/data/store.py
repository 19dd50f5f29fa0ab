"""Where pages query: one read a page, cached by the store's generation.

`app.views.kernels.data` is its part for kernels, `app.views.kernel_diff.data` for what differs
between them. Between reads a file stays open until a writer wants it. When another process holds it
longer than LOCK_TIMEOUT_S, the last thing read is shown and said to be stale.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from compile_hud.app.data.cache import Answers
from compile_hud.app.data.page_records import (
    Loaded,
)
from compile_hud.db.errors import StoreLocked
from compile_hud.db.queries.results import (
    load_runs,
)
from compile_hud.db.records.summaries import (
    RunSummary,
)
from compile_hud.db.store import Store

logger = logging.getLogger(__name__)

URL_VARIABLE = "HUD_DATABASE_URL"
DEFAULT_URL = "duckdb:///.hud/store.duckdb"
# A writer holds the store for tens of milliseconds; whoever holds it for seconds is no writer of
# ours, and a page must not hang behind it.
LOCK_TIMEOUT_S = 4.0
# More nights than anybody scrolls through.
MAX_RUNS = 400
# Pages are a few hundred kilobytes; old generations are of no use.
_CACHED_PAGES = 32

_Value = TypeVar("_Value")


def store_url() -> str:
    """Return the URL of the store this dashboard shows."""
    return os.environ.get(URL_VARIABLE) or DEFAULT_URL


def store_name() -> str:
    """Return the store's file, or its URL without the password."""
    return open_store(store_url()).name


def generation() -> int:
    """Return the number that changes with every write to the store."""
    return open_store(store_url()).generation()


def load_runs_page() -> Loaded[tuple[RunSummary, ...]]:
    """Return the newest runs, newest first."""
    return loaded(read_runs)


@functools.cache
def cached(read: Callable[..., _Value]) -> Callable[..., _Value]:
    """Return `read` with its results cached by its arguments, those named `_...` aside."""
    # Not as a decorator: before the server runs, Streamlit warns that it has no runtime.
    return st.cache_data(max_entries=_CACHED_PAGES, show_spinner=False)(read)


def open_store(url: str) -> Store:
    """Return the store at `url`, which keeps its compiled queries, and its file between writes."""
    return _store(url, LOCK_TIMEOUT_S)


@functools.cache
def _store(url: str, lock_timeout_s: float) -> Store:
    return Store(url, lock_timeout_s=lock_timeout_s, keeps_open=True)


@functools.cache
def answers() -> Answers:
    """Return what was read last."""
    return Answers()


def loaded(read: Callable[..., _Value], *wanted: str, **unkeyed: Any) -> Loaded[_Value]:
    """Return what `read` returns for this store and generation and `wanted`, cached.

    `unkeyed` are further arguments, named `_...`, that follow from `wanted`. While another process
    holds the store it is what was read before. Raises what `read` raises, StoreLocked only where
    nothing was read before.
    """
    url = store_url()
    number = generation()
    try:
        value = answers().ask(read, url, number, *wanted, **unkeyed)
    except StoreLocked as error:
        logger.info("shown as it was last read: %s", error)
        known = answers().last(read, url, *wanted)
        if known is None:
            raise
        return Loaded(value=known.value, generation=known.generation, stale_reason=str(error))
    return Loaded(value=value, generation=number)


def read_runs(url: str, generation: int) -> tuple[RunSummary, ...]:  # noqa: ARG001
    """Return the newest runs, newest first; to be asked for by `answers`."""
    return tuple(load_runs(open_store(url), limit=MAX_RUNS))
