"""The answer of a transplant in words."""

from __future__ import annotations

import math

from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.protocol.transplants import KernelTransplant
from compile_hud.runner.transplant.candidates import Candidate
from compile_hud.runner.transplant.experiment import KernelGain, Transplantation, as_mapping
from compile_hud.runner.transplant.report import answer_lines, is_answered, sentence
from compile_hud.runner.transplant.shares import LossShare
from tests.support.builders import make_case

SHARE = LossShare(share=0.94, low=0.89, high=0.99)


def answer(
    share: LossShare = SHARE, *, verdict: BoundsVerdict = BoundsVerdict.DIFFER
) -> Transplantation:
    candidate = Candidate(
        label="cpp_fused_add",
        contribution_s=1e-4,
        transplant=KernelTransplant(
            name="cpp_fused_add_0",
            language="cpp",
            own_source="slow",
            source_name="cpp_fused_add_0",
            source="fast",
        ),
    )
    return Transplantation(
        case=make_case(),
        metric="latency_s",
        loss=Estimate(1.3, 1.2, 1.4),
        is_known=False,
        verdict=verdict,
        gains=(KernelGain(candidate=candidate, share=share),),
        refusals=(),
        together=share,
        num_rounds=7,
    )


def test_the_sentence_names_the_kernel_and_its_share() -> None:
    assert "`cpp_fused_add` 94 % [89, 99] of" in sentence(answer())
    assert is_answered(answer())


def test_a_loss_that_is_not_clear_has_no_shares() -> None:
    unclear = answer(verdict=BoundsVerdict.UNCLEAR)
    assert not is_answered(unclear)
    lines = list(answer_lines(unclear, good="old", bad="new"))
    assert "not clear" in lines[-1]
    assert len(lines) == 3


def test_a_share_without_bounds_answers_nothing() -> None:
    unclear = answer(LossShare(share=0.5, low=None, high=None))
    assert not is_answered(unclear)
    assert "50 % [unclear]" in sentence(unclear)
    assert as_mapping(unclear)["together"] == {"share_pct": 50.0, "interval_pct": None}


def test_half_of_a_loss_is_no_whole_explanation() -> None:
    assert not is_answered(answer(LossShare(share=0.5, low=0.45, high=0.55)))


def test_no_difference_at_all_has_no_number_in_json() -> None:
    document = as_mapping(answer(LossShare(share=math.nan, low=None, high=None)))
    assert document["together"]["share_pct"] is None
