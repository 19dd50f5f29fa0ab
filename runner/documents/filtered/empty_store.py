"""The notices about a store without runs."""

from __future__ import annotations

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.store import Store


def empty_text(store: Store) -> str:
    """Return a notice that `store` is missing or has no run, "" if it has one."""
    if store.is_missing():
        return missing_text(store)
    if load_runs(store, limit=1):
        return ""
    return f"no run in the store {store.name} yet; `hud run` makes one"


def missing_text(store: Store) -> str:
    """Return the notice that `store` does not exist."""
    return f"there is no store {store.name} yet; `hud run` makes it, or name another with --store"
