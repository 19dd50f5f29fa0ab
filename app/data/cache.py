"""Reads of the store, cached for all sessions until the store changes.

Streamlit's `cache_data` pickles each value and unpickles it at each rerun. For the newest results
of a thousand cases that takes longer than to draw them. A read returns immutable records, so all
sessions share them. The cache has only the last value of each read and its arguments.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

import streamlit as st
from cachetools import LRUCache

from compile_hud.app.data import store
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion
from compile_hud.db.errors import StoreLocked

logger = logging.getLogger(__name__)

# Words of the URL are part of a key, so a visitor decides how many keys there are. A value has a
# few hundred kilobytes; the results of a run of a thousand cases have some megabytes.
MAX_ENTRIES: Final = 48
# A chart has a few hundred kilobytes, and one of an old version of the store is of no use.
_MAX_COMPUTED: Final = 32

_Value = TypeVar("_Value")
_Args = ParamSpec("_Args")


@dataclass(frozen=True, slots=True)
class CachedValue:
    """A value, and the version of the store from which it was read."""

    value: Any
    version: int


@dataclass(slots=True)
class _Entry:
    # Other sessions that need the value wait for it instead of reading it as well.
    lock: threading.Lock = field(default_factory=threading.Lock)
    cached: CachedValue | None = None


class VersionedCache:
    """The last value of each of the MAX_ENTRIES keys that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: LRUCache[Hashable, _Entry] = LRUCache(MAX_ENTRIES)

    def get_or_load(self, key: Hashable, version: int, load: Callable[[], _Value]) -> _Value:
        """Return the value of `key` at `version`; `load` it once, and raise what it raises."""
        entry = self._entry(key)
        with entry.lock:
            if entry.cached is None or entry.cached.version != version:
                entry.cached = CachedValue(load(), version)
            value: _Value = entry.cached.value
            return value

    def stale(self, key: Hashable) -> CachedValue | None:
        """Return the last value of `key`, of any version, None without one."""
        with self._lock:
            entry = self._entries.get(key)
        return None if entry is None else entry.cached

    def clear(self) -> None:
        """Forget every value."""
        with self._lock:
            self._entries.clear()

    def _entry(self, key: Hashable) -> _Entry:
        with self._lock:
            return self._entries.setdefault(key, _Entry())


class CachedRead(Generic[_Args, _Value]):
    """A function that reads one version of the store; made by `cached_read`."""

    def __init__(self, read: Callable[Concatenate[StoreVersion, _Args], _Value]) -> None:
        functools.update_wrapper(self, read)
        self._read = read
        self._signature = inspect.signature(read)

    def __call__(self, *args: _Args.args, **kwargs: _Args.kwargs) -> Loaded[_Value]:
        """Return the value at the present version, or a stale one while the store is locked.

        Raises what the function raises, StoreLocked only without a value of an older version.
        """
        at = store.current_version()
        try:
            value = self.read_at(at, *args, **kwargs)
        except StoreLocked as error:
            logger.info("shown as it was last read: %s", error)
            stale = read_cache().stale(self._key(at, args, kwargs))
            if stale is None:
                raise
            return Loaded(value=stale.value, version=stale.version, stale_reason=str(error))
        return Loaded(value=value, version=at.number)

    def read_at(self, at: StoreVersion, *args: _Args.args, **kwargs: _Args.kwargs) -> _Value:
        """Return the value at one version, for the read of a larger record."""
        key = self._key(at, args, kwargs)
        load = functools.partial(self._read, at, *args, **kwargs)
        return read_cache().get_or_load(key, at.number, load)

    def _key(self, at: StoreVersion, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        # Positional, named and default arguments give one key.
        bound = self._signature.bind(at, *args, **kwargs)
        bound.apply_defaults()
        return (self._read, at.url, tuple(bound.arguments.items())[1:])


def cached_read(
    read: Callable[Concatenate[StoreVersion, _Args], _Value],
) -> CachedRead[_Args, _Value]:
    """Return `read` with its value cached by its arguments until the store changes."""
    return CachedRead(read)


@functools.cache
def read_cache() -> VersionedCache:
    """Return the cache of this process."""
    return VersionedCache()


def shared_value(key: Hashable, *, version: int, compute: Callable[[], _Value]) -> _Value:
    """Return a value of one version of the store, computed once and shared by all sessions.

    Unlike computed_once it copies nothing, so the value must stay as it is. `key` names the
    function and its arguments.
    """
    return read_cache().get_or_load((store.store_url(), key), version, compute)


@functools.cache
def computed_once(compute: Callable[..., _Value]) -> Callable[..., _Value]:
    """Return `compute` with its values cached by its arguments, except those named `_...`."""
    # A decorator would run at import, and Streamlit warns of a missing runtime before the server
    # runs.
    return st.cache_data(max_entries=_MAX_COMPUTED, show_spinner=False)(compute)
