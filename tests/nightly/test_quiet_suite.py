"""A suite in which nothing changes, judged night by night."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.detection.false_discovery import (
    AlertCandidate,
    apply_false_discovery_rate,
)
from compile_hud.runner.analysis.judging.judge import judge_histories
from tests.support.builders import make_case
from tests.support.records.histories import make_series

NUM_SERIES, NUM_NIGHTS = 150, 60
# PyTorch's own record of a nightly suite with nothing changed (userbenchmark/torch-nightly): the
# largest change within 15 rounds is 1.84 % for half of its tests and 7.1 % for a tenth.
ROUNDS, MEDIAN_CHANGE, TENTH_CHANGE = 15, 0.0184, 0.071
# Before, no series has points enough.
JUDGED_NIGHTS = range(9, NUM_NIGHTS + 1)


def quiet_suite(seed: int) -> np.ndarray:
    """Return a row a series: normal, heavy-tailed or two-moded noise of sizes as on record."""
    generator = np.random.default_rng(seed)
    # The range of 15 normal values is 3.47 sd wide.
    spread = np.log(TENTH_CHANGE / MEDIAN_CHANGE) / 1.2816
    sds = MEDIAN_CHANGE / 3.47 * np.exp(spread * generator.standard_normal(NUM_SERIES))
    rows = []
    for number, sd in enumerate(sds):
        normal = generator.standard_normal(NUM_NIGHTS)
        if number % 3 == 0:
            noise = normal
        elif number % 3 == 1:
            noise = generator.standard_t(4, NUM_NIGHTS) / np.sqrt(2)
        else:
            noise = 0.6 * normal + 1.7 * (generator.random(NUM_NIGHTS) < 0.3)
        rows.append(np.exp(sd * noise))
    return np.array(rows)


def alerts_of(values: np.ndarray) -> set[str]:
    """Return the ids of all alerts that are raised on any judged night."""
    cases = [make_case(f"model-{number:03}") for number in range(len(values))]
    ids: set[str] = set()
    for num_nights in JUDGED_NIGHTS:
        candidates = list(_candidates(values[:, :num_nights], cases))
        sizes = Counter({f"run-{night}": len(values) for night in range(num_nights)})
        ids |= {
            candidate.alert.id
            for candidate in apply_false_discovery_rate(candidates, num_series=sizes)
        }
    return ids


def _candidates(values: np.ndarray, cases: list[Case]) -> list[AlertCandidate]:
    histories = [
        make_series(row.tolist(), case=case, metric="latency_cpu_s")
        for row, case in zip(values, cases, strict=True)
    ]
    return list(judge_histories(histories))


def test_noise_is_that_of_a_real_nightly_suite() -> None:
    changes = []
    for seed in range(8):
        rounds = quiet_suite(seed)[:, :ROUNDS]
        changes += (rounds.max(axis=1) / rounds.min(axis=1) - 1).tolist()
    assert np.median(changes) == pytest.approx(MEDIAN_CHANGE, rel=0.15)
    assert np.quantile(changes, 0.9) == pytest.approx(TENTH_CHANGE, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_two_months_of_a_quiet_suite_raise_at_most_an_alert_a_month(seed: int) -> None:
    assert len(alerts_of(quiet_suite(seed))) <= 2


def test_a_step_of_ten_percent_is_notified_within_two_nights() -> None:
    values = quiet_suite(4)
    calm = int(np.argsort(values.std(axis=1))[75])
    values[calm, 40:] *= 1.1
    case = [make_case(f"model-{number:03}") for number in range(NUM_SERIES)]
    sizes = {f"run-{night}": NUM_SERIES for night in range(NUM_NIGHTS)}
    candidates = apply_false_discovery_rate(_candidates(values[:, :43], case), num_series=sizes)
    assert [(candidate.alert.case.model, candidate.run_id) for candidate in candidates] == [
        (f"model-{calm:03}", "run-40")
    ]
