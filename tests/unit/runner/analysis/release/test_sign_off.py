"""The answer of a release in one line, and the error that all cases share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.analysis.comparison.paired import PairStandard
from compile_hud.runner.analysis.release.sign_off import (
    JudgedPair,
    ReleaseAdvice,
    SignOff,
    count_changed,
    judge_together,
    paired_results,
    sign_off,
)
from compile_hud.runner.analysis.stats.rounds import Pair
from tests.support.builders import make_case, make_measurement, make_result

NUM_PAIRS = 8


def result(
    model: str, latencies: Sequence[float] = (), *, outcome: Outcome = Outcome.OK
) -> CaseResult:
    measured = [make_measurement(samples=latencies or [1.0], launches=(1,) * len(latencies))]
    return make_result(
        case=make_case(model, device="cuda"),
        outcome=outcome,
        measurements=tuple(measured) if latencies else (),
    )


def pair(model: str, *, ratio: float = 1.0, sd: float = 0.002, seed: int = 0) -> Pair:
    generator = np.random.default_rng(seed)
    before, after = (
        level * np.exp(generator.normal(0, sd, NUM_PAIRS)) for level in (0.01, 0.01 * ratio)
    )
    return Pair(result(model, before.tolist()), result(model, after.tolist()))


def judged(pairs: Sequence[Pair]) -> list[JudgedPair]:
    return judge_together(pairs, standard=PairStandard(num_looks=3, num_cases=len(pairs)))


def text(**changes: object) -> str:
    values = {
        "num_cases": 160,
        "num_regressions": 0,
        "num_improvements": 0,
        "num_clusters": 0,
        "num_undecided": 0,
        "num_unmeasured": 0,
        "could_have_seen": 0.04,
    }
    return SignOff(**(values | changes)).text  # type: ignore[arg-type]


def test_answers_in_one_line(snapshot: SnapshotAssertion) -> None:
    assert [
        text(),
        text(num_regressions=3, num_clusters=1, num_undecided=2),
        text(num_undecided=1),
        text(num_unmeasured=7, could_have_seen=None),
    ] == snapshot


def test_an_open_case_is_no_reason_to_ship() -> None:
    calm = [pair(f"model{number}", seed=number) for number in range(4)]
    noisy = pair("noisy", sd=0.3, seed=9)
    total = sign_off(judged([*calm, noisy]), num_planned=5, num_clusters=0)
    assert (total.num_undecided, total.advice) == (1, ReleaseAdvice.UNDECIDED)
    total = sign_off(judged(calm), num_planned=5, num_clusters=0)
    assert (total.num_unmeasured, total.advice) == (1, ReleaseAdvice.UNDECIDED)
    total = sign_off(judged(calm), num_planned=4, num_clusters=0)
    assert total.advice is ReleaseAdvice.SHIP


def test_a_case_that_fails_under_the_candidate_alone_is_a_regression() -> None:
    broken = Pair(result("net", [0.01] * 4), result("net", outcome=Outcome.FAILED))
    (item,) = judged([broken])
    assert item.is_decided
    assert item.worst is not None
    assert item.worst.metric == "outcome"
    both = Pair(result("net", outcome=Outcome.FAILED), result("net", outcome=Outcome.FAILED))
    (item,) = judged([both])
    assert item.is_decided
    assert item.worst is None


def test_many_changes_loosen_the_limit_of_each() -> None:
    slower = [pair(f"slower{number}", ratio=1.2, seed=number) for number in range(6)]
    calm = [pair(f"calm{number}", seed=100 + number) for number in range(14)]
    standard = PairStandard(num_looks=3, num_cases=20)
    together = judge_together([*slower, *calm], standard=standard)
    assert count_changed(together, standard=standard) == 6
    assert [item.worst is not None for item in together] == [True] * 6 + [False] * 14
    # Cases that are not measured yet count as unchanged.
    alone = judge_together(slower[:1], standard=standard)
    assert count_changed(alone, standard=standard) == 1


def test_seen_is_the_change_that_shows_in_most_cases() -> None:
    calm = [pair(f"model{number}", seed=number) for number in range(9)]
    seen = sign_off(judged(calm), num_planned=9, num_clusters=0).could_have_seen
    assert seen is not None
    noisy = [*calm, pair("noisy", sd=0.2, seed=9)]
    with_one = sign_off(judged(noisy), num_planned=10, num_clusters=0).could_have_seen
    assert with_one == pytest.approx(seen, rel=0.5)


def test_cases_that_a_side_lacks_or_never_tried_are_left_out() -> None:
    before = [result("both", [0.01] * 4), result("gone", [0.01] * 4)]
    skipped = result("skipped", outcome=Outcome.SKIPPED)
    pairs = paired_results([*before, skipped], [result("both", [0.01] * 4), skipped])
    assert [item.baseline.case.model for item in pairs] == ["both"]
