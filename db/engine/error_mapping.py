"""Errors of DuckDB, PostgreSQL and the operating system, mapped to those of db/errors.py."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import duckdb
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from compile_hud.db.errors import (
    RecordError,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreTooNew,
    StoreUnavailable,
)

_LOCK_CONFLICT: Final = re.compile(r"Could not set lock on file|Conflicting lock is held")
_HOLDER: Final = re.compile(r"\(PID (\d+)\)")
_FULL: Final = re.compile(
    r"no space left|out of disk|disk quota|file too large|could not write all bytes"
    r"|could not truncate file|could not fsync file",
    re.IGNORECASE,
)
_TOO_NEW: Final = re.compile(r"database file with version number|newer version of DuckDB")
_DAMAGED: Final = re.compile(
    r"not a valid DuckDB database|corrupt|checksum|replaying wal|wal file|invalidated|deserializ"
    r"|could not read enough bytes|could not read all bytes",
    re.IGNORECASE,
)
# The value is to blame, and not the store: a number that is too large, a duplicate.
_OF_VALUES: Final = (DataError, IntegrityError, duckdb.DataError, duckdb.IntegrityError)
_INTERRUPTED: Final = "Query interrupted"
_FULL_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_SQLSTATE_FULL: Final = ("53100",)
_SQLSTATE_LOCK: Final = ("55P03",)


def is_lock_conflict(error: BaseException) -> bool:
    """Return whether `error` means that another process has the DuckDB file open."""
    return _LOCK_CONFLICT.search(_text(error)) is not None


def lock_holder(error: BaseException) -> int | None:
    """Return the PID that DuckDB's error message names."""
    match = _HOLDER.search(_text(error))
    return int(match.group(1)) if match else None


def store_locked(name: str, *, holder: int | None, waited_s: float) -> StoreLocked:
    """Return the error that names the process with the store `name`, and a remedy."""
    who = "another process" if holder is None else f"process {holder}"
    look = "" if holder is None else f" (`ps -fp {holder}` shows it)"
    return StoreLocked(
        f"the store {name} is locked: {who} holds it and did not let go within {waited_s:g} s."
        f" Close that program{look} and try again; results in the spool are not lost,"
        " `hud ingest` stores them",
        store=name,
        holder=holder,
        waited_s=waited_s,
    )


def store_waiting(name: str, *, holder: int | None, until: datetime) -> str:
    """Return a message that names the process with the store `name`, and the end of the wait."""
    who = "another process" if holder is None else f"process {holder}"
    return f"the store {name} is held by {who}; waiting for it until {until:%H:%M:%S} UTC"


def store_full(name: str) -> StoreFull:
    """Return the error that there is no room left under the store `name`."""
    return StoreFull(
        f"the disk under the store {name} is full and nothing was stored. Free some space, then"
        " repeat the command; `hud ingest` stores what was measured and waits in the spool",
        store=name,
    )


def damaged_store(name: str, *, text: str) -> StoreUnavailable:
    """Return the error that describes the damage to the file of the store `name`."""
    return StoreUnavailable(
        f"the store {name} is damaged or is no store: {text}. Copy a backup back in its place, move"
        " the file and its .wal file away to start afresh, or name another with --store",
        store=name,
        problem="damaged",
        reason=text,
    )


@contextmanager
def mapped_errors(name: str, *, timeout_s: float) -> Iterator[None]:
    """Raise the errors of the store `name` as StoreError; let the rest pass.

    DuckDB wraps an exception that a signal handler raises during a query; it passes unwrapped.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error.__cause__, BaseException) or _INTERRUPTED not in str(error):
            raise
        raise error.__cause__ from None
    except (DBAPIError, duckdb.Error, OSError) as error:
        mapped = _store_error(error, name=name, timeout_s=timeout_s)
        if mapped is None:
            raise
        raise mapped from error


def _store_error(error: Exception, *, name: str, timeout_s: float) -> StoreError | None:
    if isinstance(error, OSError):
        return _from_os(error, name=name)
    sqlstate = getattr(getattr(error, "orig", None), "sqlstate", None)
    text = _text(error)
    if sqlstate in _SQLSTATE_FULL or _FULL.search(text):
        return store_full(name)
    if sqlstate in _SQLSTATE_LOCK or _LOCK_CONFLICT.search(text):
        return store_locked(name, holder=lock_holder(error), waited_s=timeout_s)
    if _TOO_NEW.search(text):
        return StoreTooNew(
            f"the store {name} was written by a newer DuckDB ({text}). Upgrade Compile HUD, or"
            " name another store with --store",
            store=name,
            reason=text,
        )
    if _DAMAGED.search(text):
        return damaged_store(name, text=text)
    if isinstance(error, _OF_VALUES):
        return RecordError(
            f"the store {name} does not take a value: {text}", store=name, problem="refused"
        )
    return StoreUnavailable(
        f"the store {name} failed: {text}. Check that it is reachable and may be written"
        " (`hud doctor`)",
        store=name,
        problem="failed",
        reason=text,
    )


def _from_os(error: OSError, *, name: str) -> StoreError | None:
    if error.errno in _FULL_ERRNOS:
        return store_full(name)
    if error.filename is None:
        return None
    return StoreUnavailable(
        f"the store {name} cannot be opened: {error.strerror} ({error.filename})."
        " Check the path and its permissions, or name another store with --store",
        store=name,
        problem="not-opened",
        reason=error.strerror,
        path=error.filename,
    )


def _text(error: BaseException) -> str:
    # SQLAlchemy appends the statement; the driver's own text may have several lines of information.
    text = str(getattr(error, "orig", None) or error)
    return " ".join(text.split()).rstrip(".!?") or type(error).__name__
