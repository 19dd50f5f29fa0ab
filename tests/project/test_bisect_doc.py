"""The document about bisecting has the numbers of the code."""

from __future__ import annotations

import pytest

from compile_hud.runner.analysis.comparison.bisection import SEARCH_ERROR, num_answers
from compile_hud.runner.analysis.comparison.paired import looks
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE
from compile_hud.runner.bisect.record import BisectEnding
from compile_hud.runner.cli.bisect.command import DEFAULT_MAX_LAUNCHES
from compile_hud.runner.execution.paired_launches import MIN_PAIRS
from tests.support.sources import text_of

TEXT = " ".join(text_of("docs/how-to/bisect.md").split())
FIRST_LOOKS = ", ".join(map(str, looks(MIN_PAIRS, DEFAULT_MAX_LAUNCHES)[:4]))
EXAMPLE = 33


@pytest.mark.parametrize(
    "sentence",
    [
        f"after {FIRST_LOOKS} ... pairs",
        f"is at most {100 * SEARCH_ERROR:g} % (`SEARCH_ERROR`)",
        f"within `--floor` ({100 * DEFAULT_FAIL_ABOVE:g} %)",
        f"For {EXAMPLE} revisions that is {num_answers(EXAMPLE)} answers and"
        f" {100 * SEARCH_ERROR / num_answers(EXAMPLE):.2f} % each",
        *(f"`{ending}`" for ending in BisectEnding),
    ],
)
def test_numbers_of_the_document_are_those_of_the_code(sentence: str) -> None:
    assert sentence in TEXT
