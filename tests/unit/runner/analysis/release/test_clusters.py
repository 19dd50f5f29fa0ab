"""The clusters of the regressions of a release."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.release.clusters import (
    JudgedCase,
    RegressionCluster,
    cluster_text,
    find_clusters,
)
from compile_hud.runner.analysis.release.factors import Factor
from tests.support.builders import make_case
from tests.unit.runner.analysis.release.plans import every, judged, none, release

DEPTHWISE = ("model-0", "model-4", "model-8", "model-11")


def is_family_in_training(case: Case) -> bool:
    return case.family == "family-2" and case.phase == "training" and case.mode != "eager"


def has_depthwise(case: Case) -> bool:
    return case.model in DEPTHWISE and case.phase == "training"


def is_slow_depthwise(case: Case) -> bool:
    return has_depthwise(case) and case.mode != "eager"


def depthwise_kinds(case: Case) -> list[str]:
    own = ["gemm"] if case.model in ("model-1", "model-2", "model-6") else ["copy"]
    return ["depthwise convolution"] if has_depthwise(case) else own


def texts(cases: list[JudgedCase]) -> list[str]:
    number = sum(item.is_regression for item in cases)
    return [
        cluster_text(cluster, num_regressions=number, cases=cases)
        for cluster in find_clusters(cases)
    ]


def keys_of(clusters: tuple[RegressionCluster, ...]) -> list[list[str]]:
    return [[item.case.key for item in cluster.cases] for cluster in clusters]


def test_a_family_in_training_is_one_cluster() -> None:
    cases = release(is_family_in_training)
    (cluster,) = find_clusters(cases)
    assert set(cluster.cases) == {item for item in cases if item.is_regression}
    assert cluster.conditions == (
        Factor("phase", "training"),
        Factor("family", "family-2"),
        Factor("mode", "default"),
        Factor("mode", "max-autotune"),
    )
    assert cluster.num_fitting == len(cluster.cases) == 12
    assert cluster.q_value < 1e-6
    assert cluster.spared == (Factor("mode", "eager"),)


def test_a_kernel_kind_joins_models_if_it_is_known_of_other_cases() -> None:
    (cluster,) = find_clusters(release(is_slow_depthwise, kinds=depthwise_kinds))
    assert Factor("kernel kind", "depthwise convolution") in cluster.conditions
    assert {item.case.model for item in cluster.cases} == set(DEPTHWISE)


def test_a_symptom_of_regressions_alone_describes_and_joins_nothing() -> None:
    cases = release(
        is_slow_depthwise,
        kinds=lambda case: depthwise_kinds(case) if is_slow_depthwise(case) else (),
    )
    clusters = find_clusters(cases)
    assert [{item.case.model for item in cluster.cases} for cluster in clusters] == [
        {model} for model in sorted(DEPTHWISE)
    ]
    for cluster in clusters:
        assert cluster.symptoms == (Factor("kernel kind", "depthwise convolution"),)


def test_two_causes_are_two_clusters() -> None:
    clusters = find_clusters(
        release(lambda case: is_family_in_training(case) or case.model == "model-0")
    )
    assert [len(cluster.cases) for cluster in clusters] == [12, 12]
    assert {factor for cluster in clusters for factor in cluster.conditions} >= {
        Factor("family", "family-2"),
        Factor("model", "model-0"),
    }


def test_a_regression_with_nothing_in_common_is_alone() -> None:
    single = make_case("model-5", family="family-1", dtype="bf16", mode="max-autotune").key
    (cluster,) = find_clusters(release(lambda case: case.key == single))
    assert keys_of((cluster,)) == [[single]]
    assert cluster.conditions == (Factor("model", "model-5"), Factor("mode", "max-autotune"))
    assert cluster.num_fitting == 4
    assert cluster.q_value == 1.0


def test_nothing_makes_a_difference_if_most_cases_regress() -> None:
    (cluster,) = find_clusters(release(every))
    assert (cluster.conditions, len(cluster.cases), cluster.num_fitting) == ((), 144, 144)
    spared = make_case("model-5", family="family-1", dtype="bf16").key
    (cluster,) = find_clusters(release(lambda case: case.key != spared))
    assert (cluster.conditions, len(cluster.cases), cluster.num_fitting) == ((), 143, 144)


def test_no_regression_is_no_cluster() -> None:
    assert find_clusters([]) == ()
    assert find_clusters(release(none)) == ()


@settings(max_examples=10, deadline=None)
@given(st.sets(st.integers(0, 143), max_size=30), st.integers(0, 5))
def test_each_regression_is_in_one_cluster_in_any_order(rows: set[int], seed: int) -> None:
    keys = [item.case.key for item in release(none)]
    regressed = {keys[row] for row in rows}
    cases = release(lambda case: case.key in regressed, kinds=depthwise_kinds)
    clusters = find_clusters(cases)
    assert sorted(key for own in keys_of(clusters) for key in own) == sorted(regressed)
    for cluster in clusters:
        assert cluster.representative in cluster.cases
        assert 2 * cluster.num_fitting >= len(cluster.cases)
    random.Random(seed).shuffle(cases)
    assert find_clusters(cases) == clusters


@pytest.mark.parametrize(
    ("ratios", "index"),
    [
        ((1.1, 1.3, 1.2), 1),
        ((1.2, 1.2, 1.1), 0),
        ((None, 1.1, 1.2), 2),
        # A slower throughput has a ratio below 1.
        ((1.1, 0.5, 1.2), 1),
    ],
)
def test_the_representative_has_the_largest_change(
    ratios: tuple[float | None, ...], index: int
) -> None:
    cases = [
        replace(judged(make_case(f"model-{row}"), is_regression=True), ratio=ratio)
        for row, ratio in enumerate(ratios)
    ]
    (cluster,) = find_clusters(cases)
    assert cluster.representative == cases[index]


def test_a_contrast_is_with_cases_that_differ_in_one_factor_alone() -> None:
    # Other dtypes of the model regress, another model does not: neither is a contrast.
    cases = [judged(make_case("a", dtype=dtype), is_regression=True) for dtype in ("bf16", "fp32")]
    cases += [judged(make_case("b", dtype="fp32", mode=mode)) for mode in ("eager", "default")]
    for cluster in find_clusters(cases):
        assert cluster.spared == ()
    cases.append(judged(make_case("a", phase="training", dtype="fp32")))
    spared = {str(cluster.cases[0].case.dtype): cluster.spared for cluster in find_clusters(cases)}
    assert spared["fp32"] == (Factor("phase", "training"),)
    assert spared["bf16"] == ()


def test_an_own_value_of_a_contrast_is_not_spared() -> None:
    modes = ("default", "max-autotune", "reduce-overhead")
    cases = [
        judged(
            make_case(model, mode=mode),
            is_regression=mode == slow,
            findings=("spills",) * (mode == slow),
        )
        for model, slow in (("a", "default"), ("b", "default"), ("c", "max-autotune"))
        for mode in modes
    ]
    for cluster in find_clusters(cases, measured=("finding",)):
        own = {factor for item in cluster.cases for factor in item.factors}
        assert not own.intersection(cluster.spared)


def test_a_cluster_by_a_symptom_names_what_its_cases_have_in_common() -> None:
    cases = [
        judged(case, is_regression=is_slow, findings=("spills",) if is_slow else ())
        for number in range(6)
        for phase in ("inference", "training")
        for mode in ("eager", "default", "reduce-overhead")
        for is_slow in [phase == "training" and mode == "default" and number < 4]
        for case in [make_case(f"model-{number}", phase=phase, mode=mode)]
    ]
    (cluster,) = find_clusters(cases, measured=("finding",))
    text = cluster_text(cluster, num_regressions=4, cases=cases)
    assert [word in text for word in ("training", "spills")] == [True, True]


def test_modes_are_named_unless_all_others_are_spared() -> None:
    cases = release(is_family_in_training)
    (cluster,) = find_clusters(cases)
    other = judged(make_case("model-1", family="family-0", mode="reduce-overhead"))
    modes = "mode default or max-autotune"
    assert modes not in cluster_text(cluster, num_regressions=12, cases=cases)
    assert modes in cluster_text(cluster, num_regressions=12, cases=[*cases, other])


def test_texts_of_clusters(snapshot: SnapshotAssertion) -> None:
    single = make_case("model-5", family="family-1", dtype="bf16", mode="max-autotune").key
    assert {
        "family": texts(release(is_family_in_training)),
        "kernel kind": texts(release(is_slow_depthwise, kinds=depthwise_kinds)),
        "two": texts(release(lambda case: case.model == "model-0" or case.key == single)),
        "one mode": texts(
            release(lambda case: case.mode == "default" and case.family == "family-0")
        ),
        "symptoms": texts(
            release(
                lambda case: case.model == "model-0",
                kinds=lambda case: ["gemm"] if case.model == "model-0" else (),
            )
        ),
        "all": texts(release(every)),
        "most": texts(release(lambda case: case.key != single)),
    } == snapshot
