"""The memory that is alive at the peak of one iteration, by holder, and its JSON form.

Only the standard library is needed, on Python 3.10 or newer. The bytes of all rows add up to the
peak. A result of an older version, or an imported one, has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.records.codec import JSON_NAME, decode, encode
from compile_hud.db.records.json_fields import get_list
from compile_hud.db.records.string_enum import StrEnum

# The key of the document in the details of a result.
MEMORY_PEAK = "memory_peak"
# The holders that are stored by name; the others share the row `rest`.
MAX_HOLDERS = 20


class HolderKind(StrEnum):
    """The origin of memory: alive before the iteration, allocated in it, or in CUDA graphs."""

    BEFORE = "before"
    OPERATOR = "operator"
    GRAPHS = "cuda_graphs"
    REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHolder:
    """Allocations alive at the peak that one operator made for one module: a row.

    `operator` is the ATen operator or the generated kernel that first writes the memory. Before the
    iteration it is the role of the tensors (`parameters`). `line` is the user's `FILE:LINE`.
    Unknown fields are empty. `count` is the number of allocations; memory that no operator of the
    iteration allocated counts as one.
    """

    kind: HolderKind
    operator: str
    module: str = ""
    line: str = ""
    num_bytes: int = field(metadata={JSON_NAME: "bytes"})
    count: int

    @property
    def label(self) -> str:
        """Return the name of the row in a table."""
        if self.kind is HolderKind.BEFORE:
            return f"before the iteration: {self.operator}"
        return self.operator

    @property
    def is_counted(self) -> bool:
        """Return whether `count` is a number of allocations in the iteration."""
        return self.kind in (HolderKind.OPERATOR, HolderKind.REST)

    @property
    def short_line(self) -> str:
        """Return the line without folders, "" if it is unknown."""
        return self.line.replace("\\", "/").rpartition("/")[2]

    @property
    def key(self) -> tuple[str, str, str]:
        """Return the identity of the holder in another result; lines move between revisions."""
        return (str(self.kind), self.operator, self.module)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakHolders:
    """The rows of all memory at the peak, the largest first and `rest` last."""

    holders: tuple[MemoryHolder, ...]

    @classmethod
    def of(cls, holders: Iterable[MemoryHolder]) -> PeakHolders:
        """Return the peak of `holders`: those of equal key as one row, the smaller ones as rest."""
        by_key: dict[tuple[str, str, str], MemoryHolder] = {}
        for item in holders:
            if not item.num_bytes:
                continue
            known = by_key.get(item.key)
            by_key[item.key] = item if known is None else _sum_of(known, item)
        rows = sorted(by_key.values(), key=lambda item: (-item.num_bytes, item.key))
        others = [item for item in rows if item.is_counted]
        small = others[MAX_HOLDERS:]
        named = [item for item in rows if item not in small]
        if small:
            named.append(
                MemoryHolder(
                    kind=HolderKind.REST,
                    operator="the rest",
                    num_bytes=sum(item.num_bytes for item in small),
                    count=sum(item.count for item in small),
                )
            )
        return cls(holders=tuple(named))

    @property
    def num_bytes(self) -> int:
        """Return the bytes alive at the peak."""
        return sum(item.num_bytes for item in self.holders)

    @property
    def rest(self) -> MemoryHolder | None:
        """Return the row of the smaller holders, None without any."""
        return next((item for item in self.holders if item.kind is HolderKind.REST), None)

    def share(self, holder: MemoryHolder) -> float:
        """Return the part of the peak that `holder` has."""
        return holder.num_bytes / self.num_bytes if self.num_bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the peak as a JSON object."""
        return {
            "peak_bytes": self.num_bytes,
            "rows": [{**encode(item), "share": self.share(item)} for item in self.holders],
        }

    @classmethod
    def from_json(cls, document: Any) -> PeakHolders:
        """Return the peak that `document` describes; raise RecordError for an invalid one."""
        rows = get_list(document, "rows")
        return cls(holders=tuple(decode(MemoryHolder, item) for item in rows))


def memory_peak_of(details: Mapping[str, Any]) -> PeakHolders | None:
    """Return the peak among the `details` of a result, None without; raise RecordError."""
    document = details.get(MEMORY_PEAK)
    return None if document is None else PeakHolders.from_json(document)


def _sum_of(known: MemoryHolder, other: MemoryHolder) -> MemoryHolder:
    return MemoryHolder(
        kind=known.kind,
        operator=known.operator,
        module=known.module,
        line=known.line or other.line,
        num_bytes=known.num_bytes + other.num_bytes,
        count=known.count + other.count,
    )
