"""Keep DuckDB files open between the transactions of one test.

Opening a file and closing it takes DuckDB 20 ms of a processor, and a test has dozens of
transactions: they were half of the time of these tests. The product closes its file after each
transaction, and the tests of its engine use none of this. The files are closed before a test starts
a process or moves one of them.
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import duckdb
import pytest
from duckdb_sqlalchemy import ConnectionWrapper

from compile_hud.db.engine.duckdb_dialect import DuckDbDialect
from compile_hud.db.store import Store

# These programs open no store.
_OTHER_PROGRAMS = {"git", "nvidia-smi"}
# Stands for the dashboard, and opens none either.
PAUSE = [sys.executable, "-c", "import signal; signal.pause()"]
# A new store is written to a draft of this name, and then moved.
_DRAFT = ".new"
# These read or replace a file behind DuckDB's back.
_FILE_CALLS: tuple[tuple[Any, str], ...] = (
    (os, "replace"),
    (os, "rename"),
    (os, "link"),
    (os, "unlink"),
    (os, "remove"),
    (shutil, "copyfile"),
)
# A file that is open here cannot be opened by another process.
_PROCESS_CALLS: tuple[tuple[Any, str], ...] = (
    (subprocess.Popen, "__init__"),
    (multiprocessing.process.BaseProcess, "start"),
    (os, "fork"),
)


@dataclass(slots=True)
class _Instance:
    connection: duckdb.DuckDBPyConnection
    identity: tuple[int, int]


@dataclass(slots=True)
class OpenInstances:
    """The open files of one test, by their paths."""

    # Files below it are removed after the test, so that closing them needs no checkpoint.
    folder: str = ""
    is_active: bool = True
    _instances: dict[str, _Instance] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def connect(self, path: str, **options: Any) -> duckdb.DuckDBPyConnection | None:
        """Return a connection to the open file at `path`, None where it is to be opened as ever."""
        with self._lock:
            identity = _identity(path)
            known = self._instances.get(path)
            if known is not None and known.identity != identity:
                self.close(path)
                known = None
            if identity is None and path.endswith(_DRAFT):
                _copy_new_store(path)
            if not self.is_active or identity is None or path.endswith(_DRAFT):
                return None
            if known is None:
                try:
                    connection = duckdb.connect(path, **{**options, "read_only": False})
                except duckdb.Error:
                    # Open for reading, or damaged: the caller shows what the product does then.
                    return None
                known = self._instances[path] = _Instance(connection, identity)
            return known.connection.cursor()

    def close(self, path: str) -> None:
        """Close the file at `path` if it is open."""
        with self._lock:
            known = self._instances.pop(path, None)
            if known is not None:
                known.connection.close()

    def close_all(self) -> None:
        """Close all files, from now on after each transaction."""
        with self._lock:
            self.is_active = False
            for path in list(self._instances):
                self.close(path)

    def end(self) -> None:
        """Close all files at the end of the test."""
        for path, known in self._instances.items():
            if self.folder and path.startswith(self.folder):
                known.connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        self.close_all()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _copy_new_store(draft: str) -> None:
    """Let `draft` be a new store, whose tables take 50 ms to create; not one that replaces another.

    The tests of the schema create their stores themselves.
    """
    if not os.path.exists(draft.removesuffix(_DRAFT)):
        shutil.copyfile(_new_store(), draft)


@cache
def _new_store() -> Path:
    """Return a store without results, created as the product does it."""
    path = Path(mkdtemp(prefix="hud-new-store-")) / "store.duckdb"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    Store(f"duckdb:///{path}").migrate()
    return path


@contextmanager
def open_instances() -> Iterator[OpenInstances]:
    """Keep DuckDB files open while the block runs, unless it starts a process."""
    instances = OpenInstances()
    _new_store()
    opened = DuckDbDialect.connect

    def connect(self: DuckDbDialect, *cargs: Any, **cparams: Any) -> Any:
        options = {key: cparams[key] for key in cparams if key not in ("url_config", "database")}
        path = str(cparams.get("database", cargs[0] if cargs else ""))
        connection = (
            None if path == ":memory:" else instances.connect(os.path.abspath(path), **options)
        )
        return (
            opened(self, *cargs, **cparams) if connection is None else ConnectionWrapper(connection)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDbDialect, "connect", connect)
        for owner, name in _FILE_CALLS:
            patch.setattr(owner, name, _closing_files(getattr(owner, name), instances))
        for owner, name in _PROCESS_CALLS:
            patch.setattr(owner, name, _closing_all(getattr(owner, name), instances))
        try:
            yield instances
        finally:
            instances.end()


def _closing_files(call: Callable[..., Any], instances: OpenInstances) -> Callable[..., Any]:
    def closing(*arguments: Any, **options: Any) -> Any:
        for argument in arguments[:2]:
            if isinstance(argument, (str, Path)):
                instances.close(os.path.abspath(argument))
        return call(*arguments, **options)

    return closing


def _closing_all(call: Callable[..., Any], instances: OpenInstances) -> Callable[..., Any]:
    def closing(*arguments: Any, **options: Any) -> Any:
        if _may_open_stores(arguments[1] if len(arguments) > 1 else ()):
            instances.close_all()
        return call(*arguments, **options)

    return closing


def _may_open_stores(command: object) -> bool:
    """Return whether the process of `command` may open a store; empty for a process of Python."""
    if not isinstance(command, (list, tuple)) or not command:
        return True
    return command[0] not in _OTHER_PROGRAMS and list(command) != PAUSE
