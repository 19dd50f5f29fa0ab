"""The simulated releases, and the score of their clusters."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from benchmarks.release_clusters import (
    CAUSES,
    NUM_CASES,
    NUM_FALSE,
    SINGLE,
    SIZES,
    Release,
    Score,
    add_release,
    draw_release,
    summary,
)
from compile_hud.runner.analysis.release.clusters import (
    JudgedCase,
    RegressionCluster,
    find_clusters,
)
from compile_hud.runner.analysis.release.factors import KERNEL_KIND
from tests.support.builders import make_case
from tests.unit.runner.analysis.release.plans import judged


def cluster_of(cases: list[JudgedCase]) -> RegressionCluster:
    return RegressionCluster(
        conditions=(),
        cases=tuple(cases),
        num_fitting=len(cases),
        q_value=1.0,
        spared=(),
        symptoms=(),
        representative=cases[0],
    )


@pytest.mark.parametrize("are_kinds_known", [True, False])
def test_a_release_has_its_planted_causes(are_kinds_known: bool) -> None:
    release = draw_release(random.Random(1), are_kinds_known=are_kinds_known, are_planted=True)
    assert 0.9 * NUM_CASES < len(release.cases) < NUM_CASES
    regressed = {item.case.key for item in release.cases if item.is_regression}
    assert regressed == set(release.causes)
    by_cause = Counter(release.causes.values())
    assert set(by_cause) <= {*CAUSES, SINGLE, *(f"false {number}" for number in range(1, 3))}
    assert max(by_cause.values()) <= max(map(max, SIZES))
    training = {key for key, cause in release.causes.items() if cause == "family in training"}
    assert all("/training/" in key for key in training)
    with_kinds = [
        item
        for item in release.cases
        if not item.is_regression and any(own.name == KERNEL_KIND for own in item.factors)
    ]
    assert bool(with_kinds) == are_kinds_known


def test_random_regressions_have_no_cause_in_common() -> None:
    release = draw_release(random.Random(1), are_kinds_known=True, are_planted=False)
    assert max(Counter(release.causes.values()).values()) == 1
    assert len(release.causes) <= sum(SIZES[0]) + 1 + NUM_FALSE


def test_purity_and_completeness_are_counted() -> None:
    cases = [judged(make_case(name), is_regression=True) for name in "abcde"]
    causes = ["model", "model", "model", SINGLE, "false 1"]
    release = Release(
        cases=cases,
        causes={item.case.key: cause for item, cause in zip(cases, causes, strict=True)},
    )
    score = Score()
    groups = [[cases[0], cases[1], cases[3]], [cases[2]], [cases[4]]]
    add_release(score, release, clusters=[cluster_of(group) for group in groups])
    figures = summary(score)
    assert figures["purity"] == pytest.approx(4 / 5)
    assert figures["shared_purity"] == pytest.approx(2 / 3)
    assert figures["completeness"] == pytest.approx(1 / 3)
    assert figures["completeness_by_cause"] == {
        "3 regressions": pytest.approx(1 / 3),
        "model": pytest.approx(1 / 3),
    }
    assert (figures["mean_num_clusters"], figures["mean_num_planted"]) == (3, 3)
    assert figures["share_of_releases_with_shared"] == 1.0


def test_a_score_without_pairs_has_no_completeness() -> None:
    score = Score()
    release = draw_release(random.Random(1), are_kinds_known=True, are_planted=False)
    add_release(score, release, clusters=find_clusters(release.cases))
    assert summary(score)["completeness"] is None
