"""The kernels of a case are series, whatever their names and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.summaries import KernelNight
from compile_hud.runner.analysis.kernel_series import chains as module
from compile_hud.runner.analysis.kernel_series.chains import KernelChain, chain_kernels
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from tests.support.records.kernel_nights import (
    ATTENTION,
    GELU,
    LEVELS_US,
    NORM,
    PRODUCT,
    kernel_nights,
    side_of,
)


def chains_of(nights: Sequence[KernelNight]) -> dict[str, KernelChain]:
    return {chain.label: chain for chain in chain_kernels(nights, side_of=side_of)}


def with_kernels(night: KernelNight, change: dict[str, list[Kernel]]) -> KernelNight:
    """Return `night` with other kernels for some of its labels."""
    kernels = [new for old in night.kernels for new in change.get(old.label, [old])]
    return replace(night, kernels=tuple(kernels))


def kernel_of(night: KernelNight, label: str) -> Kernel:
    return next(kernel for kernel in night.kernels if kernel.label == label)


def test_a_renumbered_kernel_stays_one_chain() -> None:
    nights = kernel_nights(6)
    assert len({kernel_of(night, NORM).name for night in nights}) > 1
    chains = chains_of(nights)
    assert set(chains) == set(LEVELS_US)
    assert chains[NORM].seconds == pytest.approx(
        [kernel_of(night, NORM).total_s for night in nights]
    )


def test_equal_kernels_need_no_matching() -> None:
    def fail(_night: KernelNight) -> KernelSide:
        raise AssertionError("the code of a night was read")

    assert chain_kernels(kernel_nights(6), side_of=fail)


def test_other_code_continues_the_chain() -> None:
    *before, last = kernel_nights(6)
    rewritten = replace(kernel_of(last, NORM), source_hash="another hash")
    chain = chains_of([*before, with_kernels(last, {NORM: [rewritten]})])[NORM]
    assert not np.isnan(chain.seconds).any()


def test_another_algorithm_of_a_library_continues_the_chain() -> None:
    *before, last = kernel_nights(6)
    other = replace(kernel_of(last, ATTENTION), name="cudnn_sdpa", label="cudnn_sdpa")
    chain = chains_of([*before, with_kernels(last, {ATTENTION: [other]})])["cudnn_sdpa"]
    assert not np.isnan(chain.seconds).any()
    assert len(set(chain.variants)) == 2


def test_a_fusion_continues_as_the_sum_of_its_group() -> None:
    nights = list(kernel_nights(6))
    for number in (4, 5):
        norm, gelu = (kernel_of(nights[number], label) for label in (NORM, GELU))
        total_s = norm.total_s + gelu.total_s
        fused = replace(
            norm,
            name=f"triton_per_fused_add_gelu_native_layer_norm_{number}",
            label="triton_per_fused_add_gelu_native_layer_norm",
            source_hash="fused",
            operators=(*norm.operators, *gelu.operators),
            total_s=total_s,
            mean_s=total_s / norm.count,
        )
        nights[number] = with_kernels(nights[number], {NORM: [fused], GELU: []})
    chain = chains_of(nights)["triton_per_fused_add_gelu_native_layer_norm"]
    assert 1e6 * chain.seconds == pytest.approx([210.0] * 6, rel=0.02)


def test_a_night_without_a_kernel_is_a_gap() -> None:
    nights = list(kernel_nights(6))
    nights[2] = with_kernels(nights[2], {NORM: []})
    chain = chains_of(nights)[NORM]
    assert list(np.flatnonzero(np.isnan(chain.seconds))) == [2]


def test_time_outside_of_kernels_has_no_chain() -> None:
    nights = [
        with_kernels(
            night,
            {GELU: [replace(kernel_of(night, GELU), kind="dispatch", label="dispatch of gelu")]},
        )
        for night in kernel_nights(4)
    ]
    assert set(chains_of(nights)) == set(LEVELS_US) - {GELU}


def test_the_longest_chain_comes_first() -> None:
    assert chain_kernels(kernel_nights(4), side_of=side_of)[0].label == PRODUCT


def test_kernels_that_alternate_are_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nights = list(kernel_nights(8))
    for number in range(0, 8, 2):
        other = replace(kernel_of(nights[number], ATTENTION), label="cudnn_sdpa", name="cudnn_sdpa")
        nights[number] = with_kernels(nights[number], {ATTENTION: [other]})
    matched = []
    match = module.match_kernels
    monkeypatch.setattr(
        module,
        "match_kernels",
        lambda one, *, candidate: matched.append(1) or match(one, candidate=candidate),
    )
    assert len(chain_kernels(nights, side_of=side_of)) == len(LEVELS_US)
    assert len(matched) == 1
