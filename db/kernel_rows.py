"""Kernels and their code as rows, put and read inside the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Subquery, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from db.batches import put_rows
from db.kernels import Kernel, KernelSource
from db.records import CaseResult
from db.rows import Values, clean_json
from db.tables import KernelSourceTable, KernelTable

# Sources in one statement; every driver takes so many parameters.
_SOURCES_PER_READ: Final = 500


def put_kernels(session: Session, results: Sequence[CaseResult]) -> None:
    """Insert the kernels of `results`, and of their code what is not in yet."""
    put_rows(session, KernelTable, [row for result in results for row in _rows(result)])
    sources = [clean_json(source.to_json()) for result in results for source in result.sources]
    by_hash = {row["hash"]: row for row in sources}
    known = {
        name
        for some in _batches(by_hash)
        for name in session.execute(
            select(KernelSourceTable.hash).where(KernelSourceTable.hash.in_(some))
        ).scalars()
    }
    put_rows(session, KernelSourceTable, [by_hash[name] for name in by_hash if name not in known])


def read_kernels(
    connection: Connection, where: ColumnElement[bool]
) -> dict[str, tuple[Kernel, ...]]:
    """Return the kernels that fit `where` by result, in the order in which they came."""
    wanted = select(KernelTable.__table__).where(where).order_by(KernelTable.position)
    found: dict[str, list[Kernel]] = defaultdict(list)
    for row in connection.execute(wanted):
        found[row.result_id].append(kernel_record(row))
    return {result_id: tuple(kernels) for result_id, kernels in found.items()}


def read_sources(connection: Connection, hashes: Collection[str]) -> dict[str, KernelSource]:
    """Return the code with these hashes, by hash; what is not in the store is left out."""
    return {
        row.hash: KernelSource.from_json(row._mapping)
        for some in _batches(hashes)
        for row in connection.execute(
            select(KernelSourceTable.__table__).where(KernelSourceTable.hash.in_(some))
        )
    }


def with_kernels(
    connection: Connection, results: Sequence[CaseResult], *, stored: Subquery
) -> list[CaseResult]:
    """Return `results`, which were read from the rows `stored`, with kernels and their code."""
    kernels = read_kernels(connection, KernelTable.result_id.in_(select(stored.c.id)))
    named = {kernel.source_hash for several in kernels.values() for kernel in several}
    sources = read_sources(connection, named - {""})
    return [
        _with_kernels(result, kernels.get(result.id, ()), sources=sources) for result in results
    ]


def kernel_record(row: Row[Any]) -> Kernel:
    """Return the kernel of a row that has all columns of `kernels`."""
    # By name of the column: `row.count` is the method of a tuple.
    return Kernel.from_json(row._mapping)


def _with_kernels(
    result: CaseResult, kernels: tuple[Kernel, ...], *, sources: dict[str, KernelSource]
) -> CaseResult:
    hashes = dict.fromkeys(kernel.source_hash for kernel in kernels)
    own = tuple(sources[name] for name in hashes if name in sources)
    return replace(result, kernels=kernels, sources=own)


def _batches(hashes: Collection[str]) -> Iterator[list[str]]:
    names = sorted(hashes)
    for start in range(0, len(names), _SOURCES_PER_READ):
        yield names[start : start + _SOURCES_PER_READ]


def _rows(result: CaseResult) -> list[Values]:
    return [
        {"result_id": result.id, "position": position, **clean_json(kernel.to_json())}
        for position, kernel in enumerate(result.kernels)
    ]
