"""The changes of memory at the peak, as the pages show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChangeRow:
    """One holder on both sides; bytes are None on a side that does not name it."""

    label: str
    module: str
    line: str
    change_bytes: int
    baseline_bytes: int | None
    candidate_bytes: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChanges:
    """The holders that changed, the largest change first, and the peaks of both sides."""

    rows: tuple[MemoryChangeRow, ...]
    baseline_bytes: int
    candidate_bytes: int

    @property
    def change_bytes(self) -> int:
        """Return the bytes by which the candidate's peak is higher."""
        return self.candidate_bytes - self.baseline_bytes
