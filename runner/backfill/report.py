"""The results of a backfill: lines for people, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compile_hud.db.records.imported import BACKFILLED_TOOLCHAIN
from compile_hud.db.shared.text import counted, counted_of, signed
from compile_hud.runner.analysis.comparison.backfill import FLAT_Z, Segment
from compile_hud.runner.analysis.confirmation.confirmation import change_pct
from compile_hud.runner.backfill.record import Backfill
from compile_hud.runner.backfill.stored_points import SUITE
from compile_hud.runner.bisect.record import BisectRevision
from compile_hud.runner.bisect.report import revision_text


def is_known(backfill: Backfill) -> bool:
    """Return whether each segment of each case is flat or a step."""
    return backfill.uncertain_index is None and not any(
        backfill.undecided(case.key) for case in backfill.cases
    )


def level_rows(backfill: Backfill, case_key: str) -> list[tuple[str, str, str, str]]:
    """Return the revision, the change to the anchor, its 95 % interval and the pairs of each."""
    rows = [(revision_text(backfill.revisions[0]), "anchor", "", "")]
    levels = backfill.levels(case_key)
    pairs = {
        point.index: item.reading.num_pairs
        for point in backfill.points
        for item in point.cases
        if item.case_key == case_key
    }
    for index in sorted(levels.keys() - {0}):
        level = levels[index]
        segment = Segment(
            first=0, last=index, log_ratio=level.log_ratio, error=level.error, num_left=0
        )
        low, high = map(_percent, segment.interval)
        rows.append(
            (
                revision_text(backfill.revisions[index]),
                f"{_percent(segment.ratio)} %",
                f"[{low}, {high}]",
                str(pairs[index]),
            )
        )
    return rows


def step_lines(backfill: Backfill, case_key: str) -> Iterator[str]:
    """Yield a line with the number of steps, and one for each step and undecided segment."""
    steps, undecided = backfill.steps(case_key), backfill.undecided(case_key)
    num_measured = len(backfill.levels(case_key))
    yield (
        f"{case_key}: {counted(len(steps), 'step')},"
        f" {counted_of(num_measured, len(backfill.revisions), 'revision')} measured"
    )
    for segment in steps:
        yield f"  {segment_text(backfill, segment)}"
    for segment in undecided:
        between = f", {counted(segment.num_left, 'revision')} between" if segment.num_left else ""
        yield f"  not decided: {segment_text(backfill, segment)}{between}"


def segment_text(backfill: Backfill, segment: Segment) -> str:
    """Return `2.11.0 -> 2.12.0: +8.1 % [+7.2, +9.0]`."""
    first, last = (
        _short_text(backfill.revisions[index]) for index in (segment.first, segment.last)
    )
    low, high = map(_percent, segment.interval)
    return f"{first} -> {last}: {_percent(segment.ratio)} % [{low}, {high}]"


def _short_text(revision: BisectRevision) -> str:
    """Return the name of a toolchain or torch, and a commit with its title."""
    return revision_text(revision) if revision.authored_at else revision.name


def closing_lines(backfill: Backfill) -> Iterator[str]:
    """Yield the skipped revisions and cases, and the name of the stored points."""
    for point in backfill.points:
        name = revision_text(backfill.revisions[point.index])
        if point.reason:
            yield f"skipped: {name}: {point.reason}"
        for item in point.cases:
            if item.reason:
                yield f"skipped: {name}: {item.case_key}: {item.reason}"
    if any(not point.reason for point in backfill.points):
        yield f"stored as suite {SUITE} in toolchain {toolchain_of(backfill)}"


def toolchain_of(backfill: Backfill) -> str:
    """Return the toolchain of the stored runs, which separates them from other histories."""
    return f"{BACKFILLED_TOOLCHAIN}:{backfill.id[:6]}"


def backfill_json(backfill: Backfill) -> dict[str, Any]:
    """Return the record, and for each case its levels, steps and undecided segments."""
    return {
        **backfill.to_json(),
        "stored_toolchain": toolchain_of(backfill),
        "complete": backfill.is_complete,
        "results": [
            {
                "case": case.key,
                "levels": [
                    {
                        "revision": backfill.revisions[index].name,
                        "place": index,
                        "log_ratio": level.log_ratio,
                        "margin": FLAT_Z * level.error,
                    }
                    for index, level in sorted(backfill.levels(case.key).items())
                ],
                "steps": [_segment_json(backfill, item) for item in backfill.steps(case.key)],
                "undecided": [
                    _segment_json(backfill, item) for item in backfill.undecided(case.key)
                ],
            }
            for case in backfill.cases
        ],
    }


def _segment_json(backfill: Backfill, segment: Segment) -> dict[str, Any]:
    return {
        "from": backfill.revisions[segment.first].name,
        "to": backfill.revisions[segment.last].name,
        "change_pct": change_pct(segment.ratio),
        "interval_pct": [change_pct(bound) for bound in segment.interval],
        "num_between": segment.num_left,
    }


def _percent(ratio: float) -> str:
    return signed(100 * (ratio - 1))
