"""Numbers of the measuring protocol in docs/methodology.md that also live in code."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.measure import device, settling, timing

PAGE = Path(__file__).parents[2] / "docs" / "methodology.md"
WORDS = " ".join(PAGE.read_text(encoding="ascii").split())


@pytest.mark.parametrize(
    "claim",
    [
        f"the shortest of {timing.CALIBRATION_TRIES} (`CALIBRATION_TRIES`)",
        f"a factor of {timing.CALIBRATION_TOLERANCE:g} (`CALIBRATION_TOLERANCE`)",
        f"(`WITHIN_LAUNCH_SHARE` is {timing.WITHIN_LAUNCH_SHARE:g})",
        f"at least {timing.MIN_CALLS} (`MIN_CALLS`) times",
        f"at least {settling.MIN_FALL_ROUNDS} (`MIN_FALL_ROUNDS`)",
        f"at least {settling.MIN_FALL * 100:g} % (`MIN_FALL`)",
        f"{settling.MIN_FALL_SUPERIORITY * 100:g} % (`MIN_FALL_SUPERIORITY`)",
        f"more than {timing.MAX_FALLS} (`MAX_FALLS`) times",
        f"(`FLUSH_FACTOR` is {device.FLUSH_FACTOR})",
    ],
)
def test_the_methodology_says_what_the_protocol_does(claim: str) -> None:
    assert claim in WORDS
