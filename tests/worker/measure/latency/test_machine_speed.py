"""The speed probe of the machine, executed for real."""

from __future__ import annotations

import pytest
import torch

from compile_hud.runner.measure.device import open_device
from compile_hud.runner.measure.latency.machine_speed import (
    CHAIN_LENGTH,
    fixed_work,
    open_speed_probe,
)
from compile_hud.runner.measure.latency.sampling import sample
from tests.support.runs.launch_contexts import make_context


def test_fixed_work_is_one_product_and_a_chain() -> None:
    with torch.profiler.profile() as profile:
        link = fixed_work()()
    counts = {event.key: event.count for event in profile.key_averages()}
    assert (counts["aten::mm"], counts["aten::add"]) == (1, CHAIN_LENGTH)
    assert link.tolist() == [float(CHAIN_LENGTH)] * link.numel()


@pytest.mark.parametrize("num_threads", [2, 4])
def test_several_threads_have_no_pace(num_threads: int) -> None:
    try:
        assert open_speed_probe(open_device("cpu", num_threads=num_threads)) is None
    finally:
        torch.set_num_threads(1)


def test_a_launch_has_the_pace_of_every_round() -> None:
    inputs = {"input": torch.ones(4, 8)}
    context = make_context(torch.nn.Linear(8, 8), inputs, backend="eager", num_rounds=5)
    sample(context, context.subject.model)
    metrics = context.findings.metrics
    assert len(metrics["pace_s"].samples) == len(metrics["latency_s"].samples)
    assert min(metrics["pace_s"].samples) > 0
