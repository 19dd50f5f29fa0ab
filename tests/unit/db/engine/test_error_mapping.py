"""Foreign errors become ours, with what was wrong and what to do."""

from __future__ import annotations

import errno

import duckdb
import pytest
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import DBAPIError, OperationalError
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.engine.error_mapping import is_lock_conflict, lock_holder, mapped_errors
from compile_hud.db.errors import (
    RecordError,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreTooNew,
    StoreUnavailable,
)

LOCKED = (
    'IO Error: Could not set lock on file "/a/hud.duckdb": Conflicting lock is held in'
    " /usr/bin/python3.11 (PID 7125). See also https://duckdb.org/docs/stable/connect/concurrency"
)
NO_DUCKDB = 'IO Error: The file "x" exists, but it is not a valid DuckDB database file'
CORRUPT = "IO Error: Corrupt database file: checksum"
NEWER = "IO Error: Trying to read a database file with version number 99"
OTHER = "IO Error: the moon"


DIALECT = PGDialect()


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
    ("text", "kind", "parameters"),
    [
        (LOCKED, StoreLocked, {"holder": 7125, "waited_s": 30}),
        ("IO Error: Could not set lock on file", StoreLocked, {"holder": None, "waited_s": 30}),
        ('IO Error: Could not write file "x": No space left on device', StoreFull, {}),
        ("Out of Memory Error: out of disk space", StoreFull, {}),
        ('FATAL Error: invalidated\nOriginal error: "No space left on device"', StoreFull, {}),
        (f"{NO_DUCKDB}!", StoreUnavailable, {"problem": "damaged", "reason": NO_DUCKDB}),
        (CORRUPT, StoreUnavailable, {"problem": "damaged", "reason": CORRUPT}),
        (NEWER, StoreTooNew, {"reason": NEWER}),
        (OTHER, StoreUnavailable, {"problem": "failed", "reason": OTHER}),
    ],
    ids=[
        "held",
        "held-by-unknown",
        "full",
        "full-of-temporary-files",
        "full-in-a-second-line",
        "no-duckdb",
        "corrupt",
        "newer",
        "other",
    ],
)
def test_an_error_of_duckdb_is_mapped_with_its_facts(
    text: str, kind: type[StoreError], parameters: dict[str, object], words: SnapshotAssertion
) -> None:
    for error in (duckdb.IOException(text), _sql(duckdb.IOException(text))):
        mapped = _mapped(error)
        assert type(mapped) is kind
        assert mapped.parameters == {"store": "hud.duckdb"} | parameters
    assert str(_mapped(duckdb.IOException(text))) == words


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [("53100", StoreFull), ("55P03", StoreLocked), ("57P03", StoreUnavailable)],
)
def test_a_state_of_postgresql_is_mapped_to_its_kind(sqlstate: str, kind: type[StoreError]) -> None:
    assert type(_mapped(_sql(FakeServerError(sqlstate)))) is kind


@pytest.mark.parametrize(
    "original",
    [
        duckdb.ConversionException("Conversion Error: INT128 is out of range"),
        duckdb.ConstraintException("Constraint Error: Duplicate key"),
    ],
)
def test_a_value_that_the_store_does_not_take_is_an_error_of_the_record(
    original: Exception,
) -> None:
    wrapped = DBAPIError.instance("INSERT", None, original, duckdb.Error, dialect=DIALECT)
    assert isinstance(wrapped, DBAPIError)
    for error in (original, wrapped):
        mapped = _mapped(error)
        assert type(mapped) is RecordError
        assert mapped.parameters == {"store": "hud.duckdb", "problem": "refused"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk(number: int) -> None:
    assert type(_mapped(OSError(number, "full", "/a/hud.duckdb.generation"))) is StoreFull


def test_a_path_that_cannot_be_opened(words: SnapshotAssertion) -> None:
    mapped = _mapped(PermissionError(errno.EACCES, "Permission denied", "/a/hud.duckdb.lock"))
    assert type(mapped) is StoreUnavailable
    assert mapped.parameters == {
        "store": "hud.duckdb",
        "problem": "not-opened",
        "reason": "Permission denied",
        "path": "/a/hud.duckdb.lock",
    }
    assert str(mapped) == words


@pytest.mark.parametrize("error", [BlockingIOError("no path"), ZeroDivisionError()])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)), mapped_errors("hud.duckdb", timeout_s=30):
        raise error


def test_the_holder_is_read_from_the_message() -> None:
    assert lock_holder(duckdb.IOException(LOCKED)) == 7125
    assert lock_holder(duckdb.IOException("IO Error")) is None
    assert is_lock_conflict(duckdb.IOException(LOCKED))
    assert not is_lock_conflict(duckdb.IOException("IO Error"))
