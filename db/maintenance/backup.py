"""Backups: all rows of a store in one file, restorable into any kind of store.

The file is an uncompressed zip archive. It has a Parquet file for each table, and a manifest with
the schema's revision and the number of rows and SHA-256 of each table. The format is the same for
DuckDB and PostgreSQL, so a backup of one restores into the other. A backup of an older Compile HUD
restores into a newer one: its tables are made in the old schema, filled, and migrated.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import JSON, Column, Table, Text, cast, select
from sqlalchemy import inspect as inspect_tables
from sqlalchemy.engine import Connection

from compile_hud.db.errors import BackupError
from compile_hud.db.rows.bulk_insert import arrow_type, put_batch
from compile_hud.db.schema import migrate
from compile_hud.db.schema.tables import METADATA, RunTable, StoreVersionTable
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store

# 1: first version.
BACKUP_VERSION: Final = 1
_FORMAT: Final = "compile-hud-backup"
_MANIFEST: Final = "manifest.json"
_LARGEST_MANIFEST: Final = 1_000_000
# 50,000 rows of kernels, the widest table, are some 30 MB.
_BATCH_ROWS: Final = 50_000
_CHUNK_BYTES: Final = 1 << 20
# The table counts the writes to one store; the restored store has its own count.
_LEFT_OUT: Final = (StoreVersionTable.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBackup:
    """One table in a backup."""

    num_rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """The manifest of a backup."""

    revision: str
    created_at: str
    tables: Mapping[str, TableBackup]

    @property
    def num_rows(self) -> int:
        """Return the number of rows of all tables."""
        return sum(table.num_rows for table in self.tables.values())

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as a JSON object."""
        return {
            "format": _FORMAT,
            "schema_version": BACKUP_VERSION,
            "revision": self.revision,
            "created_at": self.created_at,
            "tables": {
                name: {"num_rows": table.num_rows, "sha256": table.sha256}
                for name, table in self.tables.items()
            },
        }


def write_backup(store: Store, path: Path, *, at: datetime) -> Backup:
    """Write all rows that `store` has at one moment to the new file `path`; return its manifest.

    Other processes continue to read and write. The file appears complete and synced, or not at all.
    Raises BackupError if `path` exists or the store has no run, OSError, and the errors of the
    store.
    """
    if path.exists():
        raise BackupError(
            f"{path} is there already and is not written over. Name another file",
            path=path,
            problem="exists",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as name:
        folder = Path(name)
        draft = folder / "draft"
        with (
            store.snapshot(folder) as connection,
            zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive,
        ):
            backup = Backup(
                revision=migrate.known_revisions()[-1],
                created_at=at.isoformat(timespec="seconds"),
                tables={
                    table.name: _write_table(connection, table, archive=archive)
                    for table in METADATA.sorted_tables
                    if table.name not in _LEFT_OUT
                },
            )
            archive.writestr(_MANIFEST, json.dumps(backup.to_json(), indent=2))
        if not backup.tables[RunTable.name].num_rows:
            raise BackupError(
                f"the store {store.name} has no run, so there is nothing to back up. Name the store"
                " that you mean with --store, or its settings with --config",
                store=store.name,
                problem="no-runs",
            )
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(draft, path)
    return backup


def restore_backup(
    path: Path,
    store: Store,
    *,
    is_forced: bool = False,
    on_replaced: Callable[[Path], None] = lambda _path: None,
) -> Backup:
    """Replace the rows of `store` by the backup at `path`, all or nothing; return its manifest.

    `on_replaced` is called with each file of the old store, which stays next to the new one. Raises

    - BackupError for a damaged file, or for a store with runs unless `is_forced`,
    - StoreTooNew for a backup of a newer Compile HUD,
    - StoreTooOld for one whose schema this one does not upgrade,
    - OSError, and the errors of the store.
    """
    with _opened(path) as archive:
        backup = _checked(archive, path=path)
        if not is_forced:
            _check_is_empty(store)
        with store.rebuild(on_replaced=on_replaced) as connection:
            migrate.upgrade(connection, name=str(path), to=backup.revision)
            for name in backup.tables:
                _restore_table(connection, name, archive=archive, path=path)
    return backup


def _write_table(connection: Connection, table: Table, *, archive: zipfile.ZipFile) -> TableBackup:
    schema = pa.schema(
        [pa.field(column.name, arrow_type(column)) for column in table.columns],
    )
    num_rows = 0
    with archive.open(_member(table.name), "w", force_zip64=True) as stream:
        hashed = _Hashed(stream)
        with pq.ParquetWriter(pa.PythonFile(hashed, mode="w"), schema, compression="zstd") as out:
            for batch in _batches(connection, table, schema=schema):
                out.write_batch(batch)
                num_rows += batch.num_rows
    return TableBackup(num_rows=num_rows, sha256=hashed.digest.hexdigest())


def _batches(connection: Connection, table: Table, *, schema: pa.Schema) -> Iterator[Any]:
    query = select(
        *(
            cast(column, Text).label(column.name) if _is_json(column) else column
            for column in table.columns
        )
    )
    if connection.dialect.name == "duckdb":
        cursor = connection.connection.cursor()
        try:
            statement = str(query.compile(dialect=connection.dialect))
            cursor.execute(statement)
            for batch in cursor.to_arrow_reader(_BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(
                    [
                        column.cast(field.type)
                        for column, field in zip(batch.columns, schema, strict=True)
                    ],
                    schema=schema,
                )
        finally:
            cursor.close()
        return
    streamed = connection.execution_options(stream_results=True, yield_per=_BATCH_ROWS)
    for rows in streamed.execute(query).partitions():
        columns = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


def _restore_table(
    connection: Connection, name: str, *, archive: zipfile.ZipFile, path: Path
) -> None:
    known = {column["name"] for column in inspect_tables(connection).get_columns(name)}
    with archive.open(_member(name)) as stream:
        content = pq.ParquetFile(pa.PythonFile(stream, mode="r"))
        strange = ", ".join(sorted(set(content.schema_arrow.names) - known))
        if strange:
            raise BackupError(
                f"{path} has columns that {name} has not: {strange}",
                path=path,
                table=name,
                columns=strange,
            )
        for batch in content.iter_batches(_BATCH_ROWS):
            _insert(connection, name, batch)


def _insert(connection: Connection, table: str, batch: Any) -> None:
    if connection.dialect.name == "duckdb":
        put_batch(connection, table, pa.Table.from_batches([batch]))
        return
    names = ", ".join(f'"{name}"' for name in batch.schema.names)
    statement = f'COPY "{table}" ({names}) FROM STDIN'
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            copy.write_row(row)


def _check_is_empty(store: Store) -> None:
    with store.read() as connection:
        if connection.execute(select(RunTable.c.id).limit(1)).first() is None:
            return
    raise BackupError(
        f"the store {store.name} has runs, which a backup would replace. Name another store with"
        " --store, or say --force",
        store=store.name,
        problem="has-runs",
    )


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, pa.ArrowInvalid) as error:
        raise BackupError(
            f"{path} is no backup, or is damaged: {error}", path=path, problem="no-archive"
        ) from error


def _checked(archive: zipfile.ZipFile, *, path: Path) -> Backup:
    """Return the manifest, after a check of all its statements."""
    backup = _manifest(archive, path=path)
    migrate.check_known(backup.revision, name=str(path))
    members = {info.filename: info for info in archive.infolist()}
    if set(members) != {_MANIFEST, *map(_member, backup.tables)}:
        raise BackupError(
            f"{path} is damaged: its parts are not those of its manifest",
            path=path,
            problem="parts",
        )
    for name, table in backup.tables.items():
        # No compression: a part is as long as its entry says, so no small file can expand to a
        # large one.
        if members[_member(name)].compress_type != zipfile.ZIP_STORED:
            raise BackupError(
                f"{path} is no backup of Compile HUD: {name} is compressed",
                path=path,
                problem="compressed",
                table=name,
            )
        with archive.open(_member(name)) as stream:
            digest = hashlib.sha256()
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
        if digest.hexdigest() != table.sha256:
            raise BackupError(
                f"{path} is damaged: the checksum of {name} is another",
                path=path,
                problem="checksum",
                table=name,
            )
        with archive.open(_member(name)) as stream:
            num_rows = pq.ParquetFile(pa.PythonFile(stream, mode="r")).metadata.num_rows
        if num_rows != table.num_rows:
            raise BackupError(
                f"{path} is damaged: {name} has {counted(num_rows, 'row')}",
                path=path,
                problem="num-rows",
                table=name,
            )
    return backup


def _manifest(archive: zipfile.ZipFile, *, path: Path) -> Backup:
    try:
        with archive.open(_MANIFEST) as stream:
            document = json.loads(stream.read(_LARGEST_MANIFEST))
        if document["format"] != _FORMAT or document["schema_version"] != BACKUP_VERSION:
            raise ValueError(f"format {document['format']}, version {document['schema_version']}")
        tables = {
            str(name): TableBackup(num_rows=int(item["num_rows"]), sha256=str(item["sha256"]))
            for name, item in document["tables"].items()
        }
        return Backup(
            revision=str(document["revision"]),
            created_at=str(document["created_at"]),
            tables=tables,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackupError(
            f"{path} is no backup that this Compile HUD reads: {error}. `hud db backup` makes them",
            path=path,
            problem="manifest",
        ) from error


def _member(table: str) -> str:
    return f"{table}.parquet"


def _is_json(column: Column[Any]) -> bool:
    return isinstance(column.type, JSON)


class _Hashed:
    """A stream that counts and hashes the bytes written to it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.digest = hashlib.sha256()
        self.closed = False
        self._stream = stream
        self._num_bytes = 0

    def write(self, content: bytes) -> int:
        """Write `content` and return its length."""
        data = bytes(content)
        self.digest.update(data)
        self._num_bytes += len(data)
        return self._stream.write(data)

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._num_bytes

    def flush(self) -> None:
        """Do nothing: the archive is flushed when it is closed."""

    def close(self) -> None:
        """Do nothing: the owner of the stream closes it."""
        self.closed = True
