"""The store that this dashboard shows.

Between reads a file stays open until a writer requests the lock.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from compile_hud.db.store import Store

URL_VARIABLE = "HUD_DATABASE_URL"
DEFAULT_URL = "duckdb:///.hud/store.duckdb"
# A writer holds the lock for tens of milliseconds. A process that holds it for seconds is no writer
# of ours, and a page must not wait for it.
LOCK_TIMEOUT_S = 4.0


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """The store at one version; all reads for one page see the same."""

    url: str
    store: Store
    number: int


def store_url() -> str:
    """Return the URL of the store this dashboard shows."""
    return os.environ.get(URL_VARIABLE) or DEFAULT_URL


def store_name() -> str:
    """Return the store's file, or its URL without the password."""
    return open_store(store_url()).name


def is_read_only() -> bool:
    """Return whether this dashboard can read the store and not write it."""
    return open_store(store_url()).is_read_only()


def store_version() -> int:
    """Return the number that changes with every write to the store."""
    return open_store(store_url()).store_version()


def current_version() -> StoreVersion:
    """Return the store at its present version."""
    url = store_url()
    return StoreVersion(url, open_store(url), store_version())


def open_store(url: str) -> Store:
    """Return the store at `url`, with its compiled queries, and its file open between writes."""
    return _store(url, LOCK_TIMEOUT_S)


@functools.cache
def _store(url: str, lock_timeout_s: float) -> Store:
    return Store(url, lock_timeout_s=lock_timeout_s, keeps_open=True)
