"""The marks of imported runs, and their statements about metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import CaseResult

# The trigger of an imported run, and the part of its toolchain before the colon.
IMPORT_TRIGGER = "import"
IMPORTED_TOOLCHAIN = "imported"
# The same part of the toolchain of runs that `hud backfill` stored.
BACKFILLED_TOOLCHAIN = "backfill"
# The part of a result's details with the facts of its file besides numbers.
IMPORTED_DETAILS = "imported"
# That part has the better direction by metric, with this mark after a guessed one.
DIRECTIONS = "directions"
GUESSED = "(guessed)"


def is_imported(toolchain: str) -> bool:
    """Return whether runs in `toolchain` are of a history, so that they cannot be repeated here.

    They were imported, or backfilled: then the times are normalised to the anchor.
    """
    return toolchain.startswith(f"{IMPORTED_TOOLCHAIN}:") or is_backfilled(toolchain)


def is_backfilled(toolchain: str) -> bool:
    """Return whether runs in `toolchain` are points of a backfill."""
    return toolchain.startswith(f"{BACKFILLED_TOOLCHAIN}:")


def was_timed(details: Mapping[str, Any]) -> bool:
    """Return whether the duration of a result with these details is known; imports have none."""
    return IMPORTED_DETAILS not in details


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The better direction of a metric by the records of a run that started `at` a time."""

    direction: Direction
    at: datetime


def stated_directions(result: CaseResult) -> Mapping[str, Direction]:
    """Return the better direction of each metric as the file of `result` states it, without
    guesses.
    """
    directions = result.details.get(IMPORTED_DETAILS, {}).get(DIRECTIONS, {})
    return {name: Direction(text) for name, text in directions.items() if GUESSED not in text}


def agreed(one: Direction, other: Direction) -> Direction:
    """Return the common direction, NEITHER if the two contradict each other."""
    return one if one is other else Direction.NEITHER


def newest_statement(one: Statement | None, other: Statement | None) -> Statement | None:
    """Return the later of two statements, in whatever order they come; None is no statement."""
    if one is None or other is None:
        return one or other
    if one.at == other.at:
        return Statement(direction=agreed(one.direction, other.direction), at=one.at)
    return max(one, other, key=lambda item: item.at)
