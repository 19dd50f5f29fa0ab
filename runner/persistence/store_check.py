"""Check before a run that the store accepts its results."""

from __future__ import annotations

from contextlib import suppress

from compile_hud.db.errors import StoreLocked, StoreTooNew, StoreUnavailable
from compile_hud.db.store import Store


def check_takes_runs(store: Store) -> StoreLocked | None:
    """Raise the error for a store that could never accept results of a run.

    StoreUnavailable: a file of another program; MixedStoreError: the store has synthetic runs.
    Returns the error of a store that stayed locked.
    """
    store.check_is_store()
    # A store that is unreadable now gets the spooled results later.
    try:
        with suppress(StoreTooNew, StoreUnavailable):
            store.check_takes_measured()
    except StoreLocked as error:
        return error
    return None
