"""The look-ups of each launch in the caches of compiled graphs, from the details of a result. Pure.

A result of an older version, or an imported one, has no such details.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.metrics import CACHE_EVENTS, COMPILE_CACHES


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupReason:
    """The reason of a miss or a bypass, and its remedy; a permanent one holds at every start."""

    event: str
    text: str
    is_permanent: bool
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLookups:
    """The look-ups of one launch in one cache; `launch` counts from 1."""

    launch: int
    state: str
    cache: str
    num_hits: int
    num_misses: int
    num_bypasses: int
    reasons: tuple[LookupReason, ...] = ()

    @property
    def title(self) -> str:
        """Return the name of the cache in texts."""
        return COMPILE_CACHES[self.cache]

    @property
    def num_lookups(self) -> int:
        """Return the number of look-ups."""
        return self.num_hits + self.num_misses + self.num_bypasses

    @property
    def reasons_text(self) -> str:
        """Return the reasons on one line, empty without any."""
        return "; ".join(
            f"{reason.event}, {'permanent' if reason.is_permanent else 'not permanent'}:"
            f" {reason.text}"
            for reason in self.reasons
        )


def cache_lookups(details: Mapping[str, Any]) -> list[CacheLookups]:
    """Return the look-ups of each launch, without those of a cache that had none in any launch."""
    launches = details.get("compile")
    if not isinstance(launches, list):
        return []
    lookups = [
        _lookups(item, launch=launch, cache=cache)
        for launch, item in enumerate(launches, start=1)
        if isinstance(item, Mapping) and isinstance(item.get("cache"), Mapping)
        for cache in COMPILE_CACHES
    ]
    used = {item.cache for item in lookups if item.num_lookups}
    return [item for item in lookups if item.cache in used]


def _lookups(item: Mapping[str, Any], *, launch: int, cache: str) -> CacheLookups:
    hits, misses, bypasses = (
        int(item["cache"].get(f"{cache}_{event}", 0)) for event in CACHE_EVENTS
    )
    return CacheLookups(
        launch=launch,
        state=str(item.get("state", "")),
        cache=cache,
        num_hits=hits,
        num_misses=misses,
        num_bypasses=bypasses,
        reasons=tuple(
            LookupReason(
                event=str(reason["event"]),
                text=str(reason["reason"]),
                is_permanent=bool(reason["is_permanent"]),
                remedy=str(reason["remedy"]),
            )
            for reason in item.get("cache_reasons") or ()
            if reason["cache"] == cache
        ),
    )
