"""Foreign errors become ours, with what was wrong and what to do."""

from __future__ import annotations

import errno

import duckdb
import pytest
from sqlalchemy.exc import OperationalError

from compile_hud.db.engine.error_mapping import is_lock_conflict, lock_holder, mapped_errors
from compile_hud.db.errors import StoreError, StoreFull, StoreLocked, StoreTooNew, StoreUnavailable

LOCKED = (
    'IO Error: Could not set lock on file "/a/hud.duckdb": Conflicting lock is held in'
    " /usr/bin/python3.11 (PID 7125). See also https://duckdb.org/docs/stable/connect/concurrency"
)


class FakeServerError(Exception):
    """An error of a PostgreSQL driver."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__("the server says no")
        self.sqlstate = sqlstate


def _mapped(error: Exception) -> StoreError:
    with pytest.raises(StoreError) as caught, mapped_errors("hud.duckdb", timeout_s=30):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def _sql(original: Exception) -> OperationalError:
    return OperationalError("SELECT 1", None, original)


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (LOCKED, StoreLocked, "process 7125 holds it .* within 30 s. .*ps -fp 7125"),
        ("IO Error: Could not set lock on file", StoreLocked, "another process holds it"),
        ('IO Error: Could not write file "x": No space left on device', StoreFull, "hud ingest"),
        ("Out of Memory Error: out of disk space", StoreFull, "then repeat the command"),
        (
            'FATAL Error: invalidated\nOriginal error: "No space left on device"',
            StoreFull,
            "Free some space",
        ),
        (
            'IO Error: The file "x" exists, but it is not a valid DuckDB database file!',
            StoreUnavailable,
            "damaged.*Copy a backup back.*move the file",
        ),
        ("IO Error: Corrupt database file: checksum", StoreUnavailable, "damaged"),
        (
            "IO Error: Trying to read a database file with version number 99",
            StoreTooNew,
            "newer DuckDB.*Upgrade Compile HUD",
        ),
        ("IO Error: the moon", StoreUnavailable, "failed: IO Error: the moon.*hud doctor"),
    ],
)
def test_what_duckdb_says(text: str, kind: type[StoreError], says: str) -> None:
    for error in (duckdb.IOException(text), _sql(duckdb.IOException(text))):
        mapped = _mapped(error)
        assert type(mapped) is kind
        with pytest.raises(kind, match=says):
            raise mapped


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [("53100", StoreFull), ("55P03", StoreLocked), ("57P03", StoreUnavailable)],
)
def test_what_postgresql_says(sqlstate: str, kind: type[StoreError]) -> None:
    assert type(_mapped(_sql(FakeServerError(sqlstate)))) is kind


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk(number: int) -> None:
    assert type(_mapped(OSError(number, "full", "/a/hud.duckdb.generation"))) is StoreFull


def test_a_path_that_cannot_be_opened() -> None:
    mapped = _mapped(PermissionError(errno.EACCES, "Permission denied", "/a/hud.duckdb.lock"))
    assert type(mapped) is StoreUnavailable
    assert "Permission denied (/a/hud.duckdb.lock). Check the path" in str(mapped)


@pytest.mark.parametrize("error", [BlockingIOError("no path"), ZeroDivisionError()])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)), mapped_errors("hud.duckdb", timeout_s=30):
        raise error


def test_the_holder_is_read_from_the_message() -> None:
    assert lock_holder(duckdb.IOException(LOCKED)) == 7125
    assert lock_holder(duckdb.IOException("IO Error")) is None
    assert is_lock_conflict(duckdb.IOException(LOCKED))
    assert not is_lock_conflict(duckdb.IOException("IO Error"))
