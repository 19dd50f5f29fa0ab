"""Numbers in docs/methodology.md that also live in code."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.measure import accuracy, compiling, steps, timing

TEXT = (Path(__file__).parents[2] / "docs" / "methodology.md").read_text(encoding="ascii")
WORDS = " ".join(TEXT.split())


@pytest.mark.parametrize(
    "claim",
    [
        f"lasts {timing.SAMPLE_S * 1e3:g} ms (`SAMPLE_S`)",
        f"at least {timing.MIN_ROUNDS} (`MIN_ROUNDS`)",
        f"the last {timing.SETTLED_ROUNDS} (`SETTLED_ROUNDS`)",
        f"within {timing.SETTLED_SPREAD * 100:g} % (`SETTLED_SPREAD`)",
        f"at most {timing.MAX_WARMUP_ROUNDS} (`MAX_WARMUP_ROUNDS`)",
        f"the first {compiling.NUM_COMPILE_CALLS} (`NUM_COMPILE_CALLS`) calls",
        f"below {accuracy.MIN_COSINE['fp32']} (fp32)",
        f"or {accuracy.MIN_COSINE['bf16']} (bf16, fp16-autocast;"
        f" {accuracy.GRADIENT_MIN_COSINE['bf16']} for their gradients)",
        f"relative {accuracy.ROUNDING_RMSE['fp32']} in fp32",
        f"{accuracy.ROUNDING_RMSE['bf16']} in bf16",
        f"{accuracy.ROUNDING_RMSE['fp16-autocast']} in fp16-autocast",
        f"and {accuracy.RMSE_FACTOR:g} times the RMS error of eager",
    ],
)
def test_the_methodology_says_what_the_code_does(claim: str) -> None:
    assert claim in WORDS


def test_the_methodology_lists_the_steps_in_order() -> None:
    places = [TEXT.index(f"| {step} |") for step in steps.STEP_ORDER]
    assert places == sorted(places)
