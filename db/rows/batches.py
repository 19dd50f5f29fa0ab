"""Ids in batches of the size of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

# Ids in one statement; every driver limits its parameters.
IDS_PER_READ: Final = 500


def batches(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ids, each once, as many at a time as a statement may have."""
    unique = list(dict.fromkeys(ids))
    for start in range(0, len(unique), IDS_PER_READ):
        yield unique[start : start + IDS_PER_READ]
