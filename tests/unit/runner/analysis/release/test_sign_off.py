"""The answer of a release in one line, and the error that all cases share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import DEFERRED, CaseResult, Outcome
from compile_hud.runner.analysis.comparison.paired import PairStandard
from compile_hud.runner.analysis.release.sign_off import (
    JudgedPair,
    ReleaseAdvice,
    SignOff,
    changed_other_p,
    count_changed,
    judge,
    judge_together,
    num_impossible,
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


def summed(items: Sequence[JudgedPair], *, num_planned: int) -> SignOff:
    standard = PairStandard(num_looks=3, num_cases=num_planned)
    return sign_off(items, num_planned=num_planned, num_clusters=0, standard=standard)


def text(**changes: object) -> str:
    values = {
        "num_cases": 160,
        "num_regressions": 0,
        "num_improvements": 0,
        "num_clusters": 0,
        "num_undecided": 0,
        "num_failing": 0,
        "num_unmeasured": 0,
        "could_have_seen": 0.04,
    }
    return SignOff(**(values | changes)).text  # type: ignore[arg-type]


def test_answers_in_one_line(snapshot: SnapshotAssertion) -> None:
    assert [
        text(),
        text(num_regressions=3, num_clusters=1, num_undecided=2),
        text(num_undecided=1),
        text(num_unmeasured=7, num_failing=2, could_have_seen=None),
    ] == snapshot


def test_an_open_case_is_no_reason_to_ship() -> None:
    calm = [pair(f"model{number}", seed=number) for number in range(4)]
    noisy = pair("noisy", sd=0.3, seed=9)
    total = summed(judged([*calm, noisy]), num_planned=5)
    assert (total.num_undecided, total.advice) == (1, ReleaseAdvice.UNDECIDED)
    total = summed(judged(calm), num_planned=5)
    assert (total.num_unmeasured, total.advice) == (1, ReleaseAdvice.UNDECIDED)
    assert summed(judged(calm), num_planned=4).advice is ReleaseAdvice.SHIP


def test_a_case_that_fails_under_the_candidate_alone_is_a_regression() -> None:
    broken = Pair(result("net", [0.01] * 4), result("net", outcome=Outcome.FAILED))
    (item,) = judged([broken])
    assert item.is_decided
    assert item.worst is not None
    assert item.worst.metric == "outcome"


def test_a_case_that_fails_on_both_sides_has_no_answer() -> None:
    both = Pair(result("net", outcome=Outcome.FAILED), result("net", outcome=Outcome.TIMEOUT))
    (item,) = judged([both])
    assert (item.is_decided, item.is_failing, item.worst) == (False, True, None)
    total = summed([item], num_planned=1)
    assert (total.num_failing, total.num_undecided) == (1, 0)
    assert total.advice is ReleaseAdvice.UNDECIDED


def test_cases_that_no_side_can_run_are_none() -> None:
    missing = [result("net", outcome=Outcome.UNAVAILABLE), result("net2", outcome=Outcome.SKIPPED)]
    assert num_impossible(missing, missing) == 2
    assert num_impossible(missing, [result("net", [0.01]), missing[1]]) == 1


def test_a_case_that_was_lost_or_deferred_counts_as_not_measured() -> None:
    absent = result("net", outcome=Outcome.NODE_LOST)
    deferred = replace(
        result("mlp", outcome=Outcome.SKIPPED), reason=f"{DEFERRED} of 1:00 is spent"
    )
    assert deferred.is_deferred
    assert num_impossible([absent, deferred], [absent, deferred]) == 0


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


def with_warm_compile(model: str, *, ratio: float, seed: int) -> Pair:
    """Return a case of the same latency whose warm compile time changes by `ratio`."""
    same = pair(model, seed=seed)
    generator = np.random.default_rng(1000 + seed)
    sides = []
    for side, level in ((same.baseline, 2.0), (same.candidate, 2.0 * ratio)):
        samples = (level * np.exp(generator.normal(0, 0.15, NUM_PAIRS))).tolist()
        launches = (1,) * NUM_PAIRS
        compiled = make_measurement("compile_warm_s", samples=samples, launches=launches)
        sides.append(replace(side, measurements=(*side.measurements, compiled)))
    return Pair(*sides)


def test_many_changes_of_other_metrics_loosen_the_limit_of_each() -> None:
    slower = [with_warm_compile(f"slow{number}", ratio=1.6, seed=number) for number in range(12)]
    calm = [with_warm_compile(f"calm{number}", ratio=1.0, seed=50 + number) for number in range(8)]
    standard = PairStandard(num_looks=5, num_cases=20)
    alone = [judge(item, standard) for item in (*slower, *calm)]
    together = judge_together([*slower, *calm], standard=standard)
    num_alone, num_together = (
        sum(item.worst is not None for item in items[: len(slower)]) for items in (alone, together)
    )
    assert num_alone + 3 <= num_together
    assert not any(item.worst for item in together[len(slower) :])
    # Cases that are not measured yet count as unchanged.
    few = PairStandard(num_looks=5, num_cases=2000)
    assert changed_other_p(alone, standard=few) < changed_other_p(alone, standard=standard)


def test_metrics_without_a_change_are_hardly_ever_called_one() -> None:
    num_false = 0
    for number in range(40):
        calm = [
            with_warm_compile(f"calm{case}", ratio=1.0, seed=100 * number + case)
            for case in range(6)
        ]
        num_false += any(item.worst is not None for item in judged(calm))
    assert num_false <= 2


@pytest.mark.parametrize("sd", [0.002, 0.01, 0.02])
def test_a_change_of_the_stated_size_shows(sd: float) -> None:
    calm = [pair(f"model{number}", sd=sd, seed=number) for number in range(30)]
    seen = summed(judged(calm), num_planned=30).could_have_seen
    assert seen is not None
    assert seen >= 0.05
    slower = [
        pair(f"slow{number}", ratio=1 + seen, sd=sd, seed=99 + number) for number in range(20)
    ]
    judgement = judge_together([*calm, *slower], standard=PairStandard(num_looks=3, num_cases=50))
    called = sum(item.worst is not None for item in judgement)
    assert called >= 0.7 * len(slower)


def test_cases_that_a_side_lacks_or_never_tried_are_left_out() -> None:
    before = [result("both", [0.01] * 4), result("gone", [0.01] * 4)]
    skipped = result("skipped", outcome=Outcome.SKIPPED)
    pairs = paired_results([*before, skipped], [result("both", [0.01] * 4), skipped])
    assert [item.baseline.case.model for item in pairs] == ["both"]
