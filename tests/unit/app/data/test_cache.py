"""A value is cached until the store changes, and belongs to its read and arguments."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from compile_hud.app.data import store
from compile_hud.app.data.cache import (
    MAX_ENTRIES,
    VersionedCache,
    cached_read,
    read_cache,
    shared_value,
)
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion
from compile_hud.db.errors import StoreLocked

URL = "duckdb:///of_this_test_alone.duckdb"


class _Reader:
    """Counts its calls, and returns a new list each time."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, *args: object) -> list[object]:
        self.calls.append(args)
        return [*args]


def test_all_sessions_share_the_value_of_a_version() -> None:
    cache, read = VersionedCache(), _Reader()
    first = cache.get_or_load("a", 1, functools.partial(read, "a"))
    assert cache.get_or_load("a", 1, functools.partial(read, "a")) is first
    assert read.calls == [("a",)]


def test_another_version_and_another_key_are_loaded_anew() -> None:
    cache = VersionedCache()
    assert cache.get_or_load("a", 1, lambda: "first") == "first"
    assert cache.get_or_load("a", 2, lambda: "second") == "second"
    assert cache.get_or_load("b", 2, lambda: "other") == "other"
    # A store that was deleted counts from 0.
    assert cache.get_or_load("a", 0, lambda: "deleted") == "deleted"


def test_a_derived_value_is_shared_by_version_and_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "store_url", lambda: URL)
    read = _Reader()

    def value(version: int) -> list[object]:
        return shared_value("rows", version=version, compute=functools.partial(read, version))

    first = value(1)
    assert value(1) is first
    assert value(2) == [2]
    monkeypatch.setattr(store, "store_url", lambda: f"{URL}.other")
    assert value(2) is not value(1)
    assert read.calls == [(1,), (2,), (2,), (1,)]
    read_cache().clear()


def test_the_stale_value_is_there_when_loading_fails() -> None:
    cache = VersionedCache()

    def fail() -> str:
        raise OSError("locked")

    assert cache.stale("a") is None
    cache.get_or_load("a", 1, lambda: "first")
    with pytest.raises(OSError, match="locked"):
        cache.get_or_load("a", 2, fail)
    stale = cache.stale("a")
    assert stale is not None
    assert (stale.value, stale.version) == ("first", 1)


def test_the_least_recently_used_keys_are_forgotten() -> None:
    cache, read = VersionedCache(), _Reader()
    for number in range(MAX_ENTRIES + 1):
        cache.get_or_load(number, 1, functools.partial(read, number))
    cache.get_or_load(MAX_ENTRIES, 1, functools.partial(read, MAX_ENTRIES))
    assert len(read.calls) == MAX_ENTRIES + 1
    cache.get_or_load(0, 1, functools.partial(read, 0))
    assert len(read.calls) == MAX_ENTRIES + 2


def test_simultaneous_readers_wait_for_one_value() -> None:
    cache = VersionedCache()
    is_reading, may_go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def load() -> str:
        calls.append(1)
        is_reading.set()
        may_go_on.wait(20)
        return "value"

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(cache.get_or_load, "a", 1, load) for _ in range(3)]
        assert is_reading.wait(20)
        may_go_on.set()
        assert [future.result() for future in waiting] == ["value"] * 3
    assert calls == [1]


@pytest.fixture(autouse=True)
def _store_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.URL_VARIABLE, URL)
    monkeypatch.setattr(store, "store_version", lambda: 7)


def test_a_read_is_cached_by_its_arguments() -> None:
    read = _Reader()

    @cached_read
    def load(at: StoreVersion, name: str, *, metric: str = "") -> list[object]:
        return read(at.number, name, metric)

    first = load("a", metric="x")
    assert first == Loaded(value=[7, "a", "x"], version=7)
    assert load("a", metric="x").value is first.value
    assert load("a", metric="y").value == [7, "a", "y"]
    assert load("b").value == [7, "b", ""]
    # The same arguments, written in other ways.
    assert load(name="b", metric="").value is load("b").value
    assert len(read.calls) == 3


def test_a_read_within_a_read_sees_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    @cached_read
    def load_part(at: StoreVersion) -> int:
        return at.number

    @cached_read
    def load_whole(at: StoreVersion) -> tuple[int, int]:
        monkeypatch.setattr(store, "store_version", lambda: 8)
        return at.number, load_part.read_at(at)

    assert load_whole().value == (7, 7)


def test_while_the_store_is_locked_the_last_value_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @cached_read
    def load(at: StoreVersion, name: str) -> str:
        if at.number > 7:
            raise StoreLocked("held by process 4711")
        return f"{name} of {at.url}"

    assert load("a").stale_reason == ""
    monkeypatch.setattr(store, "store_version", lambda: 8)
    assert load("a") == Loaded(value=f"a of {URL}", version=7, stale_reason="held by process 4711")
    with pytest.raises(StoreLocked):
        load("never read")
