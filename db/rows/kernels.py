"""Kernels and their code as rows, put and read inside the caller's transaction."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Subquery, Table, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.kernels import Kernel, KernelSource, Origin
from compile_hud.db.records.results import CaseResult
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.bulk_insert import put_rows
from compile_hud.db.rows.columns import read_rows_of_each
from compile_hud.db.rows.mapping import Values, clean_json
from compile_hud.db.schema.tables import (
    KernelOriginsColumns,
    KernelOriginsTable,
    KernelSourceColumns,
    KernelSourceTable,
    KernelTable,
)

_NO_HASH: Final = ""
_KERNEL_FIELDS: Final = tuple(
    field.name for field in fields(Kernel) if field.name not in ("operators", "origins")
)
# Tables of values that many kernels share.
_Hashed = Table[KernelSourceColumns] | Table[KernelOriginsColumns]


def put_kernels(connection: Connection, results: Sequence[CaseResult]) -> None:
    """Insert the kernels of `results`, and new ones of their code and origins."""
    rows = [row for result in results for row in _rows(result)]
    origins = {row["origins_hash"]: row.pop("origins") for row in rows}
    put_rows(connection, KernelTable, rows)
    origins.pop(_NO_HASH, None)
    made_of = [{"hash": name, "origins": nodes} for name, nodes in origins.items()]
    _put_missing(connection, KernelOriginsTable, made_of)
    sources = [clean_json(source.to_json()) for result in results for source in result.sources]
    _put_missing(connection, KernelSourceTable, sources)


def read_kernels(
    connection: Connection, conditions: Sequence[ColumnElement[bool]]
) -> dict[str, tuple[Kernel, ...]]:
    """Return the kernels that match one of `conditions` by result, in the order of insertion."""
    unordered = read_rows_of_each(connection, select(KernelTable), conditions)
    rows = sorted(unordered, key=lambda row: row.position)
    origins = _read_origins(connection, {row.origins_hash for row in rows} - {_NO_HASH})
    kernels_by_result: dict[str, list[Kernel]] = defaultdict(list)
    for row in rows:
        kernels_by_result[row.result_id].append(
            _kernel(row, origins=origins.get(row.origins_hash, ()))
        )
    return {result_id: tuple(kernels) for result_id, kernels in kernels_by_result.items()}


def _kernel(row: Any, *, origins: tuple[Origin, ...]) -> Kernel:
    values = {name: getattr(row, name) for name in _KERNEL_FIELDS}
    return Kernel(**{**values, "operators": tuple(row.operators), "origins": origins})


def read_sources(connection: Connection, hashes: Collection[str]) -> dict[str, KernelSource]:
    """Return the code with these hashes, by hash, without unknown ones."""
    rows = _read_by_hash(connection, KernelSourceTable, hashes)
    return {row.hash: KernelSource.from_json(row._mapping) for row in rows}


def read_with_sources(
    connection: Connection, conditions: Sequence[ColumnElement[bool]]
) -> dict[str, tuple[tuple[Kernel, ...], tuple[KernelSource, ...]]]:
    """Return the kernels that match one of `conditions` by result, each with the generated code."""
    kernels = read_kernels(connection, conditions)
    hashes = {
        result_id: dict.fromkeys(kernel.source_hash for kernel in several)
        for result_id, several in kernels.items()
    }
    sources = read_sources(connection, set().union(*hashes.values()) - {_NO_HASH})
    return {
        result_id: (several, tuple(sources[name] for name in hashes[result_id] if name in sources))
        for result_id, several in kernels.items()
    }


def with_kernels(
    connection: Connection, results: Sequence[CaseResult], *, stored: Subquery
) -> list[CaseResult]:
    """Return `results`, which were read from the rows `stored`, with kernels and their code."""
    by_result = read_with_sources(connection, [KernelTable.c.result_id.in_(select(stored.c.id))])
    with_those = []
    for result in results:
        kernels, sources = by_result.get(result.id, ((), ()))
        with_those.append(replace(result, kernels=kernels, sources=sources))
    return with_those


def _read_origins(connection: Connection, hashes: Collection[str]) -> dict[str, tuple[Origin, ...]]:
    rows = _read_by_hash(connection, KernelOriginsTable, hashes)
    return {row.hash: tuple(Origin.from_json(item) for item in row.origins) for row in rows}


def _read_by_hash(
    connection: Connection, table: _Hashed, hashes: Collection[str]
) -> Iterator[Row[Any]]:
    for some in batches(hashes):
        yield from connection.execute(select(table).where(table.c.hash.in_(some)))


def _put_missing(connection: Connection, table: _Hashed, rows: Sequence[Values]) -> None:
    by_hash = {row["hash"]: row for row in rows}
    known = {
        name
        for some in batches(by_hash)
        for name in connection.execute(select(table.c.hash).where(table.c.hash.in_(some))).scalars()
    }
    put_rows(connection, table, [row for name, row in by_hash.items() if name not in known])


def _rows(result: CaseResult) -> list[Values]:
    return [
        {"result_id": result.id, "position": position, **_values(kernel)}
        for position, kernel in enumerate(result.kernels)
    ]


def _values(kernel: Kernel) -> Values:
    """Return the row of `kernel` in `kernels`, with the origins of this hash."""
    values: Values = clean_json(kernel.to_json())
    content = json.dumps(values["origins"], sort_keys=True).encode()
    is_known = bool(values["origins"])
    return {**values, "origins_hash": sha256(content).hexdigest() if is_known else _NO_HASH}
