"""Numbers of the measuring protocol in docs/explanation/methodology.md that also live in code."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_hud.runner.analysis.stats import quality_checks as stability
from compile_hud.runner.analysis.stats import sample_checks
from compile_hud.runner.execution import launch_aggregation as combine
from compile_hud.runner.measure import device
from compile_hud.runner.measure.latency import steady_state as settling
from compile_hud.runner.measure.latency import timing

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "methodology.md"
WORDS = " ".join(PAGE.read_text(encoding="ascii").split())


@pytest.mark.parametrize(
    "statement",
    [
        f"the shortest of {timing.CALIBRATION_TRIES} (`CALIBRATION_TRIES`)",
        f"a factor of {timing.CALIBRATION_TOLERANCE:g} (`CALIBRATION_TOLERANCE`)",
        f"(`WITHIN_LAUNCH_SHARE` is {timing.WITHIN_LAUNCH_SHARE:g})",
        f"at least {timing.MIN_CALLS} (`MIN_CALLS`) times",
        f"at least {settling.MIN_DROP_ROUNDS} (`MIN_DROP_ROUNDS`)",
        f"at least {settling.MIN_LEVEL_DROP * 100:g} % (`MIN_LEVEL_DROP`)",
        f"{settling.MIN_DROP_SUPERIORITY * 100:g} % (`MIN_DROP_SUPERIORITY`)",
        f"more than {timing.MAX_LEVEL_DROPS} (`MAX_LEVEL_DROPS`) times",
        f"(`FLUSH_FACTOR` is {device.FLUSH_FACTOR})",
        f"{combine.SPARE_TIME:g} (`SPARE_TIME`) times the slowest launch",
        f"before {stability.FEW_SAMPLES} (`FEW_SAMPLES`) rounds",
        f"beyond {sample_checks.MIN_DRIFT_Z:g} (`MIN_DRIFT_Z`)",
        f"at least {sample_checks.MIN_DRIFT * 100:g} % (`MIN_DRIFT`)",
        f"{sample_checks.MIN_MODE_SAMPLES} (`MIN_MODE_SAMPLES`) samples",
        f"{sample_checks.MIN_MODE_CHANGE * 100:g} % (`MIN_MODE_CHANGE`)",
        f"at least {sample_checks.MIN_MODE_DISTANCE:g} (`MIN_MODE_DISTANCE`)",
        f"at least {sample_checks.MIN_MODE_SHARE * 100:g} % (`MIN_MODE_SHARE`)",
        f"less than {stability.MIN_CPU_SHARE * 100:g} % (`MIN_CPU_SHARE`)",
        f"more than {stability.MAX_STEAL_SHARE * 100:g} % (`MAX_STEAL_SHARE`)",
        f"more than {stability.MAX_GPU_CLOCK_CHANGE * 100:g} % (`MAX_GPU_CLOCK_CHANGE`)",
        f"more than {stability.MAX_CPU_CLOCK_CHANGE * 100:g} % (`MAX_CPU_CLOCK_CHANGE`)",
        f"above {stability.MAX_LAUNCH_SPREAD * 100:g} % (`MAX_LAUNCH_SPREAD`)",
        f"{stability.MAX_ENERGY_STRETCH:g} (`MAX_ENERGY_STRETCH`) times its latency in the first"
        f" launch, or less than {stability.MIN_ENERGY_STRETCH:g} of it",
    ],
)
def test_numbers_of_the_methodology_are_those_of_the_protocol(statement: str) -> None:
    assert statement in WORDS
