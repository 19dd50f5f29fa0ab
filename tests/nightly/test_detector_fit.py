from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.detector_fit.__main__ import loss_of
from benchmarks.detector_fit.fields import GROUPS, NUM_SHOWN, OTHERS, SHOWN
from benchmarks.detector_fit.scores import Score
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig

pytestmark = pytest.mark.slow
SCORE_OF = {name: score for score, fields in GROUPS for name in fields}
NEUTRAL_OF = {name: value for _, fields in GROUPS for name, value in fields.items()}


@cache
def base_costs(score: Score) -> np.ndarray:
    return score(DEFAULT_CONFIG, NUM_SHOWN)


def test_every_field_of_the_config_has_a_score() -> None:
    assert {*SCORE_OF, *OTHERS} == set(DetectorConfig.__slots__)


@pytest.mark.parametrize("name", SHOWN)
def test_no_number_may_be_dropped_without_loss(name: str) -> None:
    score, neutral = SCORE_OF[name], NEUTRAL_OF[name]
    loss = loss_of(name, neutral, score=score, base=base_costs(score), num_each=NUM_SHOWN)
    assert loss.mean > 0
