"""The choice of the next revision of a backfill, and its steps."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence

import pytest

from benchmarks.backfill_simulated import NUM_REVISIONS, RESULTS, figures, recorded, simulate
from compile_hud.runner.analysis.comparison.backfill import (
    ANCHOR,
    CaseHistory,
    RevisionLevel,
    is_precise,
    level_of,
    next_revision,
    revision_for_detection,
    steps_of,
    undecided_of,
)

FLOOR = 0.05


def levels_of(
    *changes: float, error: float = 0.004, indices: Sequence[int] = ()
) -> dict[int, RevisionLevel]:
    """Return the levels with these ratios to the anchor, which is the first."""
    known = {
        index: RevisionLevel(log_ratio=math.log1p(change), error=error)
        for index, change in zip(indices or range(1, len(changes) + 1), changes, strict=True)
    }
    return {0: ANCHOR, **known}


def following(
    levels: dict[int, RevisionLevel], *, least: int = 2, unusable: Collection[int] = ()
) -> int | None:
    history = CaseHistory(levels=levels, unusable=unusable)
    return next_revision([history], num_revisions=33, floor=FLOOR, least=least)


def test_the_ends_come_first_then_the_middle_of_the_largest_change() -> None:
    assert following({0: ANCHOR}) == 32
    assert following(levels_of(0.2, indices=[32])) == 16
    assert following(levels_of(0.0, 0.2, indices=[16, 32])) == 24
    assert following(levels_of(0.3, 0.4, indices=[16, 32])) == 8


def test_a_flat_history_is_divided_until_the_fewest_revisions_are_measured() -> None:
    flat = levels_of(0.001, indices=[32])
    assert following(flat) is None
    assert following(flat, least=3) == 16
    assert following(levels_of(0.0, 0.0, indices=[16, 32]), least=5) == 8


def test_an_uncertain_segment_is_not_flat() -> None:
    assert following(levels_of(0.0, indices=[32], error=0.04)) == 16


def test_a_revision_that_cannot_be_measured_is_replaced_by_its_neighbour() -> None:
    known = levels_of(0.2, indices=[32])
    assert following(known, unusable={16}) in (15, 17)
    assert following(known, unusable=set(range(1, 32))) is None
    assert following({0: ANCHOR}, unusable={32}) == 31


def test_the_worst_case_of_several_decides() -> None:
    calm, slow = levels_of(0.0, 0.0, indices=[16, 32]), levels_of(0.3, 0.3, indices=[16, 32])
    histories = [CaseHistory(levels=levels) for levels in (calm, slow)]
    assert next_revision(histories, num_revisions=33, floor=FLOOR, least=2) == 8


def test_a_revision_at_which_one_case_fails_is_measured_for_the_others() -> None:
    failing = CaseHistory(levels={0: ANCHOR}, unusable={16, 32})
    slow = CaseHistory(levels=levels_of(0.2, indices=[32]))
    assert next_revision([failing, slow], num_revisions=33, floor=FLOOR, least=2) == 31
    failing = CaseHistory(levels=levels_of(0.0, indices=[31]), unusable={16, 32})
    assert next_revision([failing, slow], num_revisions=33, floor=FLOOR, least=2) == 16
    everywhere = CaseHistory(levels={0: ANCHOR}, unusable=range(1, 33))
    assert next_revision([everywhere, slow], num_revisions=33, floor=FLOOR, least=2) == 16


def test_steps_are_changed_segments_without_a_revision_between() -> None:
    segments = CaseHistory(levels=levels_of(0.0, 0.1, 0.1, 0.104, indices=[1, 2, 3, 8])).segments()
    (step,) = steps_of(segments, floor=FLOOR)
    assert (step.first, step.last) == (1, 2)
    low, high = step.interval
    assert step.ratio == pytest.approx(1.1)
    assert low < 1.1 < high
    wide = CaseHistory(levels=levels_of(0.1, indices=[8])).segments()
    assert (steps_of(wide, floor=FLOOR), undecided_of(wide, floor=FLOOR)) == ((), wide)


def test_levels_of_steps_get_the_points_that_the_detector_needs() -> None:
    def needed(levels: dict[int, RevisionLevel], *, unusable: Collection[int] = ()) -> int | None:
        history = CaseHistory(levels=levels, unusable=unusable)
        return revision_for_detection(history, num_revisions=33, floor=FLOOR)

    flat = levels_of(0.0, 0.0, indices=[16, 32])
    assert needed(flat) is None
    levels = levels_of(0.0, 0.1, 0.1, indices=[15, 16, 32])
    chosen = []
    while (index := needed(levels)) is not None:
        chosen.append(index)
        levels[index] = RevisionLevel(log_ratio=math.log(1.1 if index > 15 else 1.0), error=0.004)
    # Seven before the step, three after it, the farthest from known ones first.
    assert len([index for index in levels if index < 16]) == 7
    assert (chosen[0], [index for index in chosen if index > 15]) == (7, [24])
    assert needed(levels_of(0.1, 0.1, indices=[1, 32]), unusable=range(2, 32)) is None


def test_a_level_has_the_error_of_its_interval() -> None:
    level = level_of(1.1, low=1.08, high=1.12)
    assert level.log_ratio == pytest.approx(math.log(1.1))
    assert level.error == pytest.approx(math.log(1.12 / 1.08) / 3.92)
    assert is_precise(0.99, 1.01, floor=FLOOR)
    assert not is_precise(0.98, 1.02, floor=FLOOR)


def test_a_simulated_history_without_steps_costs_the_fewest_revisions() -> None:
    run = simulate(0, num_steps=0)
    assert (run.num_revisions, run.reported) == (5, frozenset())


def test_most_steps_are_right_for_a_quarter_of_the_launches() -> None:
    document = figures()["all"]
    assert document["num_right"] >= 0.9 * document["num_planted"]
    assert document["num_false"] == 0
    assert document["share_of_pairs"] < 0.25
    assert document["mean_revisions"] < 0.3 * NUM_REVISIONS


def test_the_recorded_figures_are_those_of_the_simulation() -> None:
    assert json.loads(RESULTS.read_text()) == recorded()
