"""The only module that opens the store.

DuckDB lets one process write or many read, and an idle connection counts. So every transaction
opens the file, does one short thing and closes it; db/engine/readers_writer_lock.py orders them.
PostgreSQL needs no lock files: an advisory lock lets one writer in at a time, so the rules are the
same on both.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, StaticPool

from compile_hud.db.engine.connection_cache import CONNECTION_CACHE
from compile_hud.db.engine.duckdb_dialect import register_dialect
from compile_hud.db.engine.error_mapping import (
    is_lock_conflict,
    lock_holder,
    mapped_errors,
    store_locked,
)
from compile_hud.db.engine.file_guard import check_is_store
from compile_hud.db.engine.pandas_import import refuse_pandas
from compile_hud.db.engine.readers_writer_lock import LockTimeout, ReadersWriterLock
from compile_hud.db.errors import StoreTooNew, StoreUnavailable
from compile_hud.db.schema.tables import METADATA, StoreVersionTable

URL_FORMS: Final = (
    "duckdb:///relative/path.duckdb, duckdb:////absolute/path.duckdb, duckdb:///:memory:"
    " or postgresql+psycopg://user@host/database"
)
# Extensions would be downloaded at query time; a store needs neither the network nor other files.
# 512 MB costs nothing at 20 million rows and leaves the memory to the measured model.
_DUCKDB_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": "512MB",
}
# Any constant will do, as long as every Compile HUD uses the same.
_ADVISORY_KEY: Final = 0x48554421
# A process works with one store, or with two when it moves results between them.
_NUM_ENGINES: Final = 8
_CONNECT_TIMEOUT_S: Final = 10


class Database(Protocol):
    """An opened URL: short transactions and the store version."""

    name: str

    def is_missing(self) -> bool:
        """Return whether the file does not exist yet."""

    def is_read_only(self) -> bool:
        """Return whether this process may read the file and not write it."""

    def check_is_store(self) -> None:
        """Raise StoreUnavailable if the file is of another program."""

    def store_version(self) -> int:
        """Return a number that every write raises, except writes that leave it on purpose."""

    def read(self) -> AbstractContextManager[Connection]:
        """Return a read transaction."""

    def write(self, *, raises_version: bool = True) -> AbstractContextManager[Connection]:
        """Return a transaction that commits, and raises the store version, when its block ends.

        A write that changes no page, such as a heartbeat, leaves the version: else all open pages
        would load again.
        """

    def snapshot(self, folder: Path) -> AbstractContextManager[Connection]:
        """Return a read transaction of one moment that blocks no writer; `folder` is for a copy."""

    def rebuild(self, *, on_replaced: Callable[[Path], None]) -> AbstractContextManager[Connection]:
        """Return a write transaction without any table; its tables replace all old ones.

        `on_replaced` is called with each old file, under its new name.
        """


def open_database(url: str, *, lock_timeout: LockTimeout, keeps_open: bool = False) -> Database:
    """Return the database at `url` without touching it; raise StoreUnavailable for a bad URL.

    With `keeps_open` a file stays open between reads, as long as no writer waits.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreUnavailable(f"{url!r} is no store URL. Allowed: {URL_FORMS}", url=url) from error
    if parsed.drivername == "postgresql+psycopg" and parsed.database:
        return PostgresServer(parsed, lock_timeout=lock_timeout)
    if parsed.drivername == "duckdb" and parsed.database == ":memory:":
        return DuckDbMemory()
    if parsed.drivername == "duckdb" and parsed.database and not (parsed.query or parsed.host):
        return DuckDbFile(Path(parsed.database), lock_timeout=lock_timeout, keeps_open=keeps_open)
    shown = parsed.render_as_string(hide_password=True)
    raise StoreUnavailable(f"{shown!r} is no store URL. Allowed: {URL_FORMS}", url=shown)


class DuckDbFile:
    """A DuckDB file, opened for each transaction and closed after it, or cached by readers."""

    def __init__(self, path: Path, *, lock_timeout: LockTimeout, keeps_open: bool = False) -> None:
        self.name = str(path)
        self._path = path
        self._lock_timeout = lock_timeout
        self._keeps_open = keeps_open
        self._stamp = path.with_name(path.name + ".generation")
        self._file_lock = ReadersWriterLock(path, name=self.name, lock_timeout=lock_timeout)
        self._reader = _file_engine(str(path), read_only=True)
        self._writer = _file_engine(str(path), read_only=False)
        self._nesting = _NestedTransaction()

    def is_missing(self) -> bool:
        """Return whether the file does not exist yet."""
        return not self._path.exists()

    def is_read_only(self) -> bool:
        """Return whether this process may read the file and not write it."""
        may_write = all(os.access(path, os.W_OK) for path in (self._path, self._path.parent))
        return not may_write and not self.is_missing()

    def check_is_store(self) -> None:
        """Raise StoreUnavailable if the file is of another program."""
        with mapped_errors(self.name, timeout_s=self._lock_timeout.timeout_s):
            check_is_store(self._path, file_lock=self._file_lock, reader=self._reader)

    def store_version(self) -> int:
        """Return the number in the stamp file, 0 without one."""
        try:
            return int(self._stamp.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return 0

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a read-only connection; the file must exist."""
        CONNECTION_CACHE.close(self._path, unless_same=True)
        self.check_is_store()
        with (
            self._nesting.entered(),
            mapped_errors(self.name, timeout_s=self._lock_timeout.timeout_s),
            self._file_lock.reading(),
            self._connect(self._reader) as connection,
            connection.begin(),
        ):
            if self._keeps_open:
                CONNECTION_CACHE.put(self._path, engine=self._reader, file_lock=self._file_lock)
            yield connection

    @contextmanager
    def write(self, *, raises_version: bool = True) -> Iterator[Connection]:
        """Yield the only connection to the file; a new file appears whole or not at all.

        The stamp rises before the commit, while no other process can read. A reader that sees the
        new number waits for the lock and then reads the committed rows. A crash in between costs
        one needless reload and leaves no dashboard stale.
        """
        with (
            self._nesting.entered(),
            mapped_errors(self.name, timeout_s=self._lock_timeout.timeout_s),
        ):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self.check_is_store()
            CONNECTION_CACHE.close(self._path)
            with self._file_lock.writing():
                if self.is_missing():
                    yield from self._write_new()
                else:
                    with self._connect(self._writer) as connection:
                        yield from self._transaction(connection, raises_version=raises_version)

    @contextmanager
    def snapshot(self, folder: Path) -> Iterator[Connection]:
        """Yield a connection to a copy in `folder`; writers wait only while the file is copied."""
        copy = folder / self._path.name
        with self.read():
            # The log comes first: closing any handle of the file gives up this process's lock on
            # it.
            for path in (self._log, self._path):
                if path.exists():
                    shutil.copyfile(path, copy.with_name(path.name))
            CONNECTION_CACHE.close(self._path)
        with (
            self._nesting.entered(),
            mapped_errors(self.name, timeout_s=self._lock_timeout.timeout_s),
            _duckdb_engine(str(copy)).connect() as connection,
        ):
            yield connection

    @contextmanager
    def rebuild(self, *, on_replaced: Callable[[Path], None]) -> Iterator[Connection]:
        """Yield a connection to a new file; the old file stays next to it, as `.replaced`."""
        with (
            self._nesting.entered(),
            mapped_errors(self.name, timeout_s=self._lock_timeout.timeout_s),
        ):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            CONNECTION_CACHE.close(self._path)
            with self._file_lock.writing():
                self._fold_log()
                yield from self._write_new(put=lambda: self._put_aside(on_replaced))

    def _fold_log(self) -> None:
        """Move the rows of the log into the file, so that one rename replaces both.

        A writer that was killed leaves a log with its last commit. A damaged file, or one of a
        newer DuckDB, keeps its log.
        """
        if self.is_missing() or not self._log.exists():
            return
        try:
            with (
                mapped_errors(self.name, timeout_s=self._lock_timeout.timeout_s),
                self._connect(self._writer) as connection,
            ):
                _checkpoint(connection)
        except StoreTooNew:
            return
        except StoreUnavailable as error:
            if error.parameters.get("problem") != "damaged":
                raise

    def _put_aside(self, on_replaced: Callable[[Path], None]) -> None:
        moved = _free_name(self._path.with_name(self._path.name + ".replaced"))
        # Both have their second name before the first is taken away: a crash loses neither.
        for path, second in ((self._log, _log_of(moved)), (self._path, moved)):
            if path.exists():
                os.link(path, second)
                on_replaced(second)
        # DuckDB would replay the log into the new file.
        self._log.unlink(missing_ok=True)

    def _write_new(self, put: Callable[[], None] | None = None) -> Iterator[Connection]:
        put = put or self._check_no_orphan
        draft = self._path.with_name(self._path.name + ".new")
        _remove(draft)
        try:
            with self._connect(_duckdb_engine(str(draft))) as connection:
                yield from self._transaction(connection, is_new=True)
            put()
            os.replace(draft, self._path)
        finally:
            _remove(draft)

    @property
    def _log(self) -> Path:
        return _log_of(self._path)

    def _check_no_orphan(self) -> None:
        # DuckDB would replay the old log into the new file.
        log = self._log
        if log.exists():
            raise StoreUnavailable(
                f"the store {self.name} is gone, but its log {log.name} is still there. Copy a"
                " backup of the store back, or move the log away to start afresh",
                store=self.name,
                log=log.name,
            )

    def _transaction(
        self, connection: Connection, *, is_new: bool = False, raises_version: bool = True
    ) -> Iterator[Connection]:
        transaction = connection.begin()
        try:
            yield connection
            if raises_version:
                self._raise_version()
            transaction.commit()
            if is_new:
                # The log must be empty, since only the file is moved into position.
                _checkpoint(connection)
        except BaseException:
            # After a full disk DuckDB cannot even roll back; closing it discards the transaction.
            connection.invalidate()
            raise

    def _raise_version(self) -> None:
        draft = self._stamp.with_name(self._stamp.name + ".new")
        draft.write_text(str(self.store_version() + 1), encoding="ascii")
        os.replace(draft, self._stamp)

    def _connect(self, engine: Engine) -> Connection:
        # The lock files are ours; the DuckDB shell or a notebook does not know them.
        conflict: DBAPIError | None = None
        opened: list[Connection] = []

        def is_free() -> bool:
            nonlocal conflict
            try:
                opened.append(engine.connect())
            except DBAPIError as error:
                if not is_lock_conflict(error):
                    raise
                conflict = error
            return bool(opened)

        def holder() -> int | None:
            return None if conflict is None else lock_holder(conflict)

        # An attempt takes milliseconds of a processor that a run may measure on.
        if not self._lock_timeout.wait(is_free=is_free, holder=holder, backs_off=True):
            waited_s = self._lock_timeout.timeout_s
            raise store_locked(self.name, holder=holder(), waited_s=waited_s) from conflict
        return opened[0]


class DuckDbMemory:
    """A DuckDB in memory that lives as long as this object; for tests and empty stores."""

    name = ":memory:"

    def __init__(self) -> None:
        self._engine = _duckdb_engine(":memory:")
        self._lock = threading.RLock()
        self._nesting = _NestedTransaction()
        self._version = 0

    def is_missing(self) -> bool:
        """Return False: the database always exists."""
        return False

    def is_read_only(self) -> bool:
        """Return False: this process alone has the database."""
        return False

    def check_is_store(self) -> None:
        """Do nothing: no other program can have this database."""

    def store_version(self) -> int:
        """Return the number of writes so far."""
        return self._version

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield the one connection."""
        with self._nesting.entered(), self._lock, self._engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self, *, raises_version: bool = True) -> Iterator[Connection]:
        """Yield the one connection and count the write."""
        with self.read() as connection:
            yield connection
            self._version += raises_version

    @contextmanager
    def snapshot(self, folder: Path) -> Iterator[Connection]:
        """Yield the one connection; `folder` is not needed."""
        del folder
        with self.read() as connection:
            yield connection

    @contextmanager
    def rebuild(self, *, on_replaced: Callable[[Path], None]) -> Iterator[Connection]:
        """Yield the one connection after all tables were dropped."""
        del on_replaced
        with self.write() as connection:
            _drop_tables(connection)
            yield connection


class PostgresServer:
    """A database on a PostgreSQL server."""

    def __init__(self, url: URL, *, lock_timeout: LockTimeout) -> None:
        self.name = url.render_as_string(hide_password=True)
        self._timeout_s = lock_timeout.timeout_s
        self._nesting = _NestedTransaction()
        lock_timeout_ms = max(1, round(lock_timeout.timeout_s * 1000))
        # With less than two seconds libpq takes two.
        connect_timeout_s = min(_CONNECT_TIMEOUT_S, max(2, math.ceil(lock_timeout.timeout_s)))
        try:
            self._engine = _server_engine(
                url, lock_timeout_ms=lock_timeout_ms, connect_timeout_s=connect_timeout_s
            )
        except ModuleNotFoundError as error:
            raise StoreUnavailable(
                "PostgreSQL stores need the driver psycopg, which is not installed."
                " `pip install 'compile-hud[postgres]'` installs it",
                package="psycopg",
            ) from error

    def is_missing(self) -> bool:
        """Return False: only a connection would tell, and then the tables are missing."""
        return False

    def is_read_only(self) -> bool:
        """Return False: the server alone knows, and refuses the write."""
        return False

    def check_is_store(self) -> None:
        """Do nothing: a database may have tables of others."""

    def store_version(self) -> int:
        """Return the number in its table, 0 before the first write."""
        with self.read() as connection:
            return _stored_version(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a read-only connection that sees one snapshot."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with (
            self._nesting.entered(),
            mapped_errors(self.name, timeout_s=self._timeout_s),
            self._engine.connect() as connection,
            connection.execution_options(**options).begin(),
        ):
            yield connection

    @contextmanager
    def write(self, *, raises_version: bool = True) -> Iterator[Connection]:
        """Yield a connection of the only writer."""
        with (
            self._nesting.entered(),
            mapped_errors(self.name, timeout_s=self._timeout_s),
            self._engine.begin() as connection,
        ):
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))
            yield connection
            if not raises_version:
                return
            first = insert(StoreVersionTable).values(id=1, value=1)
            raised = {"value": StoreVersionTable.c.value + 1}
            connection.execute(first.on_conflict_do_update(index_elements=["id"], set_=raised))

    @contextmanager
    def snapshot(self, folder: Path) -> Iterator[Connection]:
        """Yield a connection that sees one snapshot, as `read` does; `folder` is not needed."""
        del folder
        with self.read() as connection:
            yield connection

    @contextmanager
    def rebuild(self, *, on_replaced: Callable[[Path], None]) -> Iterator[Connection]:
        """Yield a connection without our tables; other tables of the database stay."""
        del on_replaced
        with self.write() as connection:
            number = _stored_version(connection)
            _drop_tables(connection)
            yield connection
            # Caches of the old store must notice that this is another one.
            connection.execute(sa.insert(StoreVersionTable).values(id=1, value=number))


class _NestedTransaction:
    """Detects a nested transaction, which would wait for its own thread for ever, and raises at
    once.
    """

    def __init__(self) -> None:
        self._state = threading.local()

    @contextmanager
    def entered(self) -> Iterator[None]:
        assert not getattr(self._state, "is_inside", False), "a transaction is open already"
        self._state.is_inside = True
        try:
            yield
        finally:
            self._state.is_inside = False


def _stored_version(connection: Connection) -> int:
    if not sa.inspect(connection).has_table(StoreVersionTable.name):
        return 0
    return connection.execute(sa.select(StoreVersionTable.c.value)).scalar() or 0


def _drop_tables(connection: Connection) -> None:
    METADATA.drop_all(connection)
    connection.execute(
        sa.schema.DropTable(sa.Table("alembic_version", sa.MetaData()), if_exists=True)
    )


def _checkpoint(connection: Connection) -> None:
    autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
    autocommit.execute(sa.text("CHECKPOINT"))


def _remove(draft: Path) -> None:
    for path in (draft, _log_of(draft)):
        path.unlink(missing_ok=True)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _free_name(path: Path) -> Path:
    """Return `path`, or it with the first number for which neither the file nor its log exists."""
    names = itertools.chain([path], (Path(f"{path}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not any(map(os.path.lexists, (name, _log_of(name)))))


# All stores of a URL share one engine. It caches compiled statements, and each mapper of SQLAlchemy
# caches a hundred statements with the engines' dialects. Those would grow in a process that makes
# many stores. NullPool caches no connection, so the file is closed.
@lru_cache(maxsize=_NUM_ENGINES)
def _file_engine(path: str, *, read_only: bool) -> Engine:
    return _duckdb_engine(path, read_only=read_only)


@lru_cache(maxsize=_NUM_ENGINES)
def _server_engine(url: URL, *, lock_timeout_ms: int, connect_timeout_s: int) -> Engine:
    return sa.create_engine(
        url,
        poolclass=NullPool,
        connect_args={
            "connect_timeout": connect_timeout_s,
            "application_name": "compile-hud",
            "options": f"-c timezone=UTC -c lock_timeout={lock_timeout_ms}",
        },
    )


def _duckdb_engine(database: str, *, read_only: bool = False) -> Engine:
    refuse_pandas()
    register_dialect()
    return sa.create_engine(
        URL.create("duckdb", database=database),
        poolclass=StaticPool if database == ":memory:" else NullPool,
        connect_args={"read_only": read_only, "config": dict(_DUCKDB_SETTINGS)},
    )
