"""Histories with noise, and the alerts that the detector makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.judging import judge as judging
from tests.support.records.histories import make_series


def noisy(levels: Sequence[tuple[int, float]], *, cv: float = 0.005, seed: int = 0) -> list[float]:
    """Return nightly values of `(number of nights, level)` pairs with Gaussian noise."""
    generator = np.random.default_rng(seed)
    flat = np.concatenate([np.full(num_nights, level) for num_nights, level in levels])
    return [float(value) for value in flat * (1 + cv * generator.standard_normal(flat.size))]


def judge_case(histories: Sequence[Series]) -> list[Alert]:
    """Return the alerts of one case, before the decision over a whole run."""
    return [candidate.alert for candidate in judging.judge_case(histories)]


def judge(values: Sequence[float], *, metric: str = "latency_cpu_s") -> list[Alert]:
    """Return the alerts of one series of a case."""
    return judge_case([make_series(values, metric=metric)])
