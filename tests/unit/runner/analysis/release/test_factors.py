from __future__ import annotations

from compile_hud.runner.analysis.release.factors import NAMES, SYMPTOMS, Factor, case_factors
from tests.support.builders import make_case


def test_a_case_has_one_factor_for_each_part_of_the_plan() -> None:
    case = make_case(
        "resnet",
        family="convnet",
        phase="training",
        dtype="bf16",
        mode="default",
        variant="freezing",
    )
    factors = case_factors(case)
    assert {factor.name: factor.value for factor in factors} == {
        "model": "resnet",
        "family": "convnet",
        "phase": "training",
        "dtype": "bf16",
        "shape": "tiny",
        "mode": "freezing",
        "device": "cpu",
    }
    assert {factor.name for factor in factors} | set(SYMPTOMS) == set(NAMES)


def test_symptoms_come_last_and_once() -> None:
    factors = case_factors(
        make_case(),
        grown_kinds=("gemm", "copy", "gemm"),
        grown_operators=("aten.mm",),
        new_findings=("graph-break",),
    )
    assert factors[-4:] == (
        Factor("kernel kind", "gemm"),
        Factor("kernel kind", "copy"),
        Factor("operator", "aten.mm"),
        Factor("finding", "graph-break"),
    )
