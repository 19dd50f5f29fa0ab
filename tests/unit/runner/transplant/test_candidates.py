"""The kernels of a bad build that a good one can replace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compile_hud.runner.transplant.candidates import find_candidates
from compile_hud.runner.transplant.interfaces import KernelCode, RefusalReason
from tests.support.records.kernel_diffs import product
from tests.support.records.kernel_versions import (
    cpp_code,
    side_of_versions,
    triton_code,
    version,
)

GOOD = version(cpp_code("fast();"), mean_us=100)
BAD = version(cpp_code("slow();"), mean_us=300)


def outcome_of(
    good: list[KernelCode], bad: list[KernelCode], *, max_kernels: int = 4
) -> tuple[list[str], list[tuple[str, RefusalReason]]]:
    """Return the names to transplant and the refused labels with their reasons."""
    candidates, refusals = find_candidates(
        side_of_versions(*good, latency_s=1e-3),
        side_of_versions(*bad, latency_s=2e-3),
        max_kernels=max_kernels,
        num_threads=1,
    )
    names = [item.transplant.name for item in candidates]
    return names, [(item.label, item.reason) for item in refusals]


def test_a_slower_kernel_with_other_code_is_a_candidate() -> None:
    (candidate,), refusals = find_candidates(
        side_of_versions(GOOD, latency_s=1e-3),
        side_of_versions(
            replace(BAD, kernel=replace(BAD.kernel, name="cpp_fused_add_0#2")), latency_s=2e-3
        ),
        max_kernels=4,
        num_threads=1,
    )
    assert not refusals
    assert candidate.label == "cpp_fused_add"
    assert candidate.contribution_s == pytest.approx(2e-4)
    transplant = candidate.transplant
    assert (transplant.name, transplant.language) == ("cpp_fused_add_0", "cpp")
    assert (transplant.own_source, transplant.source) == (BAD.text, GOOD.text)
    assert (transplant.vector_isa, dict(transplant.config)) == ("avx2", {})


def test_a_faster_kernel_is_none() -> None:
    assert outcome_of([BAD], [GOOD]) == ([], [])


def test_a_disturbed_profile_still_shows_a_kernel_whose_fastest_call_is_slower() -> None:
    sides = [
        replace(side_of_versions(item, latency_s=latency_s), deviation=2.0)
        for item, latency_s in ((GOOD, 1e-3), (BAD, 2e-3))
    ]
    candidates, _ = find_candidates(*sides, max_kernels=4, num_threads=1)
    assert [item.label for item in candidates] == ["cpp_fused_add"]


def test_kernels_are_refused_with_their_reasons() -> None:
    same = version(cpp_code("same();"), name="cpp_fused_mul_0", mean_us=100)
    slower = replace(same, kernel=replace(same.kernel, mean_s=3e-4, total_s=3e-4, min_s=3e-4))
    new = version(cpp_code("new();"), name="cpp_fused_tanh_2", mean_us=200)
    new = replace(new, kernel=replace(new.kernel, operators=("aten.tanh",), shapes="[3]"))
    names, refusals = outcome_of([GOOD, same], [BAD, slower, new])
    assert names == ["cpp_fused_add_0"]
    assert refusals == [
        ("cpp_fused_mul", RefusalReason.SAME_CODE),
        ("cpp_fused_tanh", RefusalReason.NO_PAIR),
    ]


def test_a_library_kernel_is_refused() -> None:
    good = side_of_versions(latency_s=1e-3, others=[product("a", mean_s=1e-4)])
    bad = side_of_versions(latency_s=2e-3, others=[product("a", mean_s=9e-4)])
    _, (refusal,) = find_candidates(good, bad, max_kernels=4, num_threads=1)
    assert refusal.reason is RefusalReason.LIBRARY
    assert "(aten)" in refusal.text
    assert refusal.to_json() == {
        "label": "aten::addmm",
        "reason": "library",
        "text": refusal.text,
        "contribution_us": pytest.approx(800),
    }


@pytest.mark.parametrize("side", ["good", "bad"])
def test_code_that_is_not_stored_is_refused(side: str) -> None:
    good, bad = (side_of_versions(item, latency_s=1e-3) for item in (GOOD, BAD))
    if side == "good":
        good = replace(good, sources={})
    else:
        bad = replace(bad, sources={})
    _, (refusal,) = find_candidates(good, bad, max_kernels=4, num_threads=1)
    assert refusal.reason is RefusalReason.NO_SOURCE
    assert f"of the {side} build" in refusal.text


def test_another_interface_is_refused() -> None:
    other = version(cpp_code("slow();", parameters="float* out_ptr0"), mean_us=300)
    assert outcome_of([GOOD], [other]) == ([], [("cpp_fused_add", RefusalReason.ARGUMENTS)])


def test_kernels_that_were_split_are_refused() -> None:
    fused = version(cpp_code("both();"), name="cpp_fused_add_tanh_0", mean_us=100)
    fused = replace(fused, kernel=replace(fused.kernel, operators=("aten.add", "aten.tanh")))
    parts = []
    for number, name in enumerate(("add", "tanh")):
        part = version(cpp_code(f"{name}();"), name=f"cpp_fused_{name}_{number}", mean_us=200)
        parts.append(replace(part, kernel=replace(part.kernel, operators=(f"aten.{name}",))))
    names, refusals = outcome_of([fused], parts)
    assert not names
    assert {reason for _, reason in refusals} == {RefusalReason.REGROUPED}


def test_more_kernels_than_allowed_are_refused() -> None:
    pairs = [
        (
            version(cpp_code(f"fast({number});"), name=f"cpp_fused_{name}_0", mean_us=100),
            version(cpp_code(f"slow({number});"), name=f"cpp_fused_{name}_0", mean_us=mean_us),
        )
        for number, (name, mean_us) in enumerate((("exp", 200.0), ("sin", 400.0)))
    ]
    good, bad = ([pair[side] for pair in pairs] for side in (0, 1))
    names, refusals = outcome_of(good, bad, max_kernels=1)
    assert names == ["cpp_fused_sin_0"]
    assert refusals == [("cpp_fused_exp", RefusalReason.LIMIT)]


CHOICE = {"XBLOCK": 64, "num_warps": 4, "num_stages": 1}


@pytest.mark.parametrize(
    ("choice", "other", "reason"),
    [
        (CHOICE, {**CHOICE, "XBLOCK": 8}, None),
        ({"XBLOCK": 64}, {"XBLOCK": 8}, RefusalReason.CONFIG),
        (CHOICE, CHOICE, RefusalReason.SAME_CODE),
    ],
    ids=["whole", "unknown warps", "same"],
)
def test_a_configuration_alone_is_transplanted(
    choice: dict[str, int], other: dict[str, int], reason: RefusalReason | None
) -> None:
    name = "triton_poi_fused_add_0"
    good, bad = (
        version(triton_code(), name=name, language="triton", mean_us=mean_us, config=config)
        for mean_us, config in ((100, choice), (300, other))
    )
    candidates, refusals = find_candidates(
        side_of_versions(good, latency_s=1e-3),
        side_of_versions(bad, latency_s=2e-3),
        max_kernels=4,
        num_threads=1,
    )
    if reason is None:
        assert candidates[0].transplant.config == CHOICE
    else:
        assert [item.reason for item in refusals] == [reason]
