"""Holders of memory, made by hand."""

from __future__ import annotations

from typing import Any

from compile_hud.db.records.memory.peak import HolderKind, MemoryHolder, PeakHolders

MIB = 2**20


def make_holder(operator: str, num_bytes: int, **fields: Any) -> MemoryHolder:
    """Return a holder; by default one allocation of an operator without module and line."""
    defaults: dict[str, Any] = {"kind": HolderKind.OPERATOR, "count": 1}
    return MemoryHolder(operator=operator, num_bytes=num_bytes, **{**defaults, **fields})


def make_peak(*holders: MemoryHolder, parameters: int = 4 * MIB) -> PeakHolders:
    """Return the peak of `holders` and of parameters that were alive before."""
    before = make_holder("parameters", parameters, kind=HolderKind.BEFORE)
    return PeakHolders.of([before, *holders])
