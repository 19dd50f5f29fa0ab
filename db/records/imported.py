"""The marks of imported runs, and their statements about metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import CaseResult

# What started a run that is none of ours, and what its toolchain begins with, before a colon.
IMPORT_TRIGGER = "import"
IMPORTED_TOOLCHAIN = "imported"
# The part of a result's details with the facts of its file besides numbers.
IMPORTED_DETAILS = "imported"
# There, by metric, which way is better; and the mark of a guessed direction.
DIRECTIONS = "directions"
GUESSED = "(guessed)"


def is_imported(toolchain: str) -> bool:
    """Return whether runs in `toolchain` are those of others, which nothing here can repeat."""
    return toolchain.startswith(f"{IMPORTED_TOOLCHAIN}:")


def was_timed(details: Mapping[str, Any]) -> bool:
    """Return whether it is known how long a result of these details took; no history says so."""
    return IMPORTED_DETAILS not in details


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Which way a metric is better, as records of a run that started `at` say."""

    direction: Direction
    at: datetime


def stated_directions(result: CaseResult) -> Mapping[str, Direction]:
    """Return which way is better as the file of `result` states it, by metric; not the guesses."""
    directions = result.details.get(IMPORTED_DETAILS, {}).get(DIRECTIONS, {})
    return {name: Direction(text) for name, text in directions.items() if GUESSED not in text}


def agreed(one: Direction, other: Direction) -> Direction:
    """Return what both say, NEITHER where they contradict each other."""
    return one if one is other else Direction.NEITHER


def newest_statement(one: Statement | None, other: Statement | None) -> Statement | None:
    """Return the later of two statements, in whatever order they come; None is no statement."""
    if one is None or other is None:
        return one or other
    if one.at == other.at:
        return Statement(direction=agreed(one.direction, other.direction), at=one.at)
    return max(one, other, key=lambda item: item.at)
