"""The report of a finished bisection."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.comparison.bisection import Mark, Reading
from compile_hud.runner.bisect.record import (
    BisectEnding,
    Bisection,
    BisectRevision,
    BisectStep,
    Limits,
    RevisionAxis,
)
from compile_hud.runner.bisect.report import (
    change_text,
    conclusion,
    ends_text,
    repro,
    revision_text,
)
from compile_hud.runner.protocol.messages import MeasureSettings
from tests.support.builders import START, make_case


def reading(ratio: float, *, spread: float = 1.02) -> Reading:
    """Return a reading whose interval reaches `spread` times as far on both sides."""
    return Reading(
        metric="latency_cpu_s",
        unit="s",
        baseline=0.010,
        candidate=0.010 * ratio,
        ratio=ratio,
        low=ratio / spread,
        high=ratio * spread,
        baseline_outcome=Outcome.OK,
        candidate_outcome=Outcome.OK,
        num_pairs=4,
    )


def step(index: int, mark: Mark) -> BisectStep:
    ratio = 1.2 if mark is Mark.BAD else 1.0
    step_reading = None if mark is Mark.SKIPPED else reading(ratio)
    return BisectStep(index=index, mark=mark, reason="it broke", reading=step_reading, took_s=60.0)


ENDS = reading(1.2)
BISECTION = Bisection(
    id="b1",
    started_at=START,
    axis=RevisionAxis.TOOLCHAIN,
    origin={},
    revisions=tuple(BisectRevision(name=name) for name in ("a", "b", "c", "d")),
    case=make_case(),
    toolchain="current",
    settings=MeasureSettings(),
    metric=None,
    limits=Limits(floor=0.05, max_launches=80, step_s=900.0),
    ends=ENDS,
    steps=(step(1, Mark.GOOD), step(2, Mark.BAD)),
    check=reading(1.2),
)


def first_line(bisection: Bisection) -> str:
    return next(iter(conclusion(bisection)))


def test_a_check_that_carries_the_change_names_the_revision() -> None:
    assert BISECTION.ending is BisectEnding.FOUND
    assert first_line(BISECTION) == "first bad revision: c"


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (reading(1.05), "it came in several steps, or an answer was wrong"),
        (
            reading(1.1, spread=1.1),
            "whether that carries more than half of the change is not clear",
        ),
    ],
)
def test_a_check_that_does_not_names_none_and_says_why(
    check: Reading, text: str, words: SnapshotAssertion
) -> None:
    bisection = replace(BISECTION, check=check)
    assert bisection.ending is BisectEnding.UNCONFIRMED
    assert first_line(bisection) == words
    assert first_line(bisection).endswith(text)


def test_an_unfinished_bisection_has_no_ending() -> None:
    assert replace(BISECTION, ends=None).ending is None
    assert replace(BISECTION, steps=(step(2, Mark.BAD),)).ending is None
    assert replace(BISECTION, check=None).ending is None


def test_a_step_that_compared_the_two_is_the_evidence() -> None:
    bisection = replace(BISECTION, steps=(step(1, Mark.BAD),), check=None)
    assert bisection.evidence is bisection.steps[0].reading
    assert bisection.ending is BisectEnding.FOUND


def test_only_skipped_revisions_between_leave_a_range(words: SnapshotAssertion) -> None:
    bisection = replace(BISECTION, steps=(step(1, Mark.SKIPPED), step(2, Mark.BAD)), check=None)
    assert bisection.ending is BisectEnding.RANGE
    assert list(conclusion(bisection))[:3] == words


def test_a_commit_is_shown_with_its_subject() -> None:
    commit = BisectRevision(name="0123456789abcdef", title="Widen it", authored_at="2026-01-01")
    assert revision_text(commit) == '0123456789 "Widen it"'
    assert (
        revision_text(BisectRevision(name="nightly", title="torch 2.14")) == "nightly (torch 2.14)"
    )


def test_a_change_has_its_interval_and_its_pairs() -> None:
    text = "+20.0 % [+17.6, +22.4], 10.0 ms -> 12.0 ms, 4 pairs"
    assert change_text(ENDS) == text
    count = replace(ENDS, metric="graph_breaks", unit="1", baseline=0.0, candidate=2.0)
    assert change_text(replace(count, ratio=None, low=None, high=None)) == "0 -> 2, 4 pairs"
    assert change_text(replace(count, ratio=2.0, low=2.0, high=2.0)) == "0 -> 2, 4 pairs"


def test_one_step_is_one_step() -> None:
    bisection = replace(BISECTION, revisions=BISECTION.revisions[:3])
    assert ends_text(bisection).endswith("regression; 1 step follows")


def test_the_repro_of_commits_names_the_toolchain_and_the_metric() -> None:
    bisection = replace(
        BISECTION,
        axis=RevisionAxis.COMMIT,
        origin={"repository": "/home/me/my models"},
        toolchain="night",
        metric="peak_bytes",
    )
    assert repro(bisection).startswith(
        "hud bisect --repo '/home/me/my models' --good b --bad c --toolchain night --model bert"
    )
    assert repro(bisection).endswith(" --metric peak_bytes")
