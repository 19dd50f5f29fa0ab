"""A store on a read-only file system can be read, and says that it cannot be written."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.engine.connection_cache import CONNECTION_CACHE
from compile_hud.db.errors import StoreUnavailable
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.store import Store
from tests.support.builders import make_run


@pytest.fixture(params=["with lock files", "without lock files"])
def url(request: pytest.FixtureRequest, duckdb_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a store with a run, in a folder that is read-only from now on."""
    store = Store(duckdb_url)
    store.save_run(make_run("looked-at"))
    folder = Path(store.name).parent
    if request.param == "without lock files":
        for name in (".lock", ".door"):
            Path(store.name + name).unlink()
    open_file, access = os.open, os.access

    def open_read_only(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if Path(path).parent == folder and flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return open_file(path, flags, *arguments, **options)

    def may(path: Any, mode: int) -> bool:
        is_here = folder in (Path(path), Path(path).parent)
        return access(path, mode) and not (is_here and mode & os.W_OK)

    monkeypatch.setattr(os, "open", open_read_only)
    monkeypatch.setattr(os, "access", may)
    return duckdb_url


def test_a_read_only_store_is_read_and_nothing_is_made(url: str) -> None:
    store = Store(url)
    before = sorted(Path(store.name).parent.iterdir())
    for _ in range(2):
        assert [item.run.id for item in load_runs(store)] == ["looked-at"]
    assert store.is_read_only()
    assert sorted(Path(store.name).parent.iterdir()) == before


def test_a_read_only_store_may_stay_open(url: str) -> None:
    store = Store(url, keeps_open=True)
    for _ in range(3):
        assert [item.run.id for item in load_runs(store)] == ["looked-at"]
    CONNECTION_CACHE.close(Path(store.name))
    for thread in threading.enumerate():
        if thread.name == "connection-cache":
            thread.join(20)
    assert CONNECTION_CACHE.problem == ""


def test_a_write_to_a_read_only_store_is_refused_with_the_reason(url: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Store(url).save_run(make_run("second"))
    assert caught.value.parameters["problem"] == "not-opened"
    assert caught.value.parameters["reason"] == os.strerror(errno.EROFS)


def test_other_stores_are_not_read_only(store_url: str) -> None:
    store = Store(store_url)
    assert not store.is_read_only()
    store.save_run(make_run("first"))
    assert not store.is_read_only()
