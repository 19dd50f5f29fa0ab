"""The noise of a GPU as the ledger shows it."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from benchmarks.gpu.ledger import newest
from benchmarks.gpu.noise import launch_spreads, repeats
from compile_hud.db.records.results import RunDocument
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)

DEVICE = "NVIDIA Pretender"


def document(
    *latencies_s: float, speedup: tuple[float, float] = (1.0, 1.2), day: int = 0, release: str = "5"
) -> RunDocument:
    facts = {"device_name": DEVICE, "torch_version": "2.99", "transformers_version": release}
    run = make_run(f"run{day}", environment=facts, started_at=START + timedelta(days=day))
    case = make_case("bert", mode="default", device="cuda")
    measured = (
        make_measurement("latency_s", samples=latencies_s, launches=(1,) * len(latencies_s)),
        make_measurement("speedup", samples=speedup, launches=(2,)),
    )
    return make_document(run, results=[make_result(run=run, case=case, measurements=measured)])


def test_the_spread_is_that_of_the_launches_of_one_case() -> None:
    (spread,) = launch_spreads([document(1.0, math.exp(0.1))], device=DEVICE)
    assert (spread.metric, spread.waits_for, spread.num_cases) == ("latency_s", "GPU", 1)
    assert spread.root_mean_square == pytest.approx(0.1 / math.sqrt(2))
    assert spread.median_sd == pytest.approx(1.4826 * 0.1 / math.sqrt(2))


@pytest.mark.parametrize(("speedup", "agrees"), [((1.1, 1.4), True), ((1.3, 1.4), False)])
def test_a_case_that_was_measured_again_agrees_where_intervals_overlap(
    speedup: tuple[float, float], agrees: bool
) -> None:
    (pair,) = repeats([document(1.0), document(1.0, speedup=speedup, day=1)], device=DEVICE)
    assert pair.agrees("latency_s")
    assert pair.agrees("speedup") is agrees


def test_another_release_of_transformers_is_no_repetition() -> None:
    assert repeats([document(1.0), document(1.0, release="6", day=1)], device=DEVICE) == []


def test_rows_from_before_the_mask_of_encoders_do_not_count() -> None:
    for model, num_rows in (("bert", 1), ("albert", 0)):
        run = make_run(started_at=START.replace(year=2025))
        result = make_result(run=run, case=make_case(model, device="cuda"))
        assert len(newest([make_document(run, results=[result])])) == num_rows
