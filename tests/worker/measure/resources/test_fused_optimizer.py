"""Fused steps of an optimizer that is not fused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn, optim

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.resources import training_breakdown as breakdown
from compile_hud.runner.measure.resources.fused_optimizer import can_be_fused, fused
from tests.support.runs.launch_contexts import make_context

Make = Callable[[nn.Module], optim.Optimizer]


def trained(make: Make) -> tuple[nn.Module, optim.Optimizer]:
    """Return a model with gradients, and its optimizer after one step."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    model(torch.ones(2, 8)).square().sum().backward()
    optimizer = make(model)
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    "make",
    [
        lambda model: optim.AdamW(model.parameters(), lr=0.1),
        lambda model: optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    ],
    ids=["adamw", "sgd"],
)
def test_a_fused_step_is_the_step_of_the_optimizer(make: Make) -> None:
    (plain, plain_optimizer), (model, optimizer) = trained(make), trained(make)
    assert can_be_fused(optimizer)
    plain_optimizer.step()
    with fused(optimizer), torch.profiler.profile() as profiler:
        optimizer.step()
    for expected, parameter in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected)
    assert any(event.key.startswith("aten::_fused_") for event in profiler.key_averages())
    assert [(group["fused"], group["foreach"]) for group in optimizer.param_groups] == [
        (group["fused"], group["foreach"]) for group in plain_optimizer.param_groups
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda model: optim.AdamW(model.parameters(), fused=True),
        lambda model: optim.Adadelta(model.parameters()),
        lambda model: optim.AdamW([p.detach().to(torch.complex64) for p in model.parameters()]),
    ],
    ids=["is fused", "has no fused step", "complex weights"],
)
def test_only_an_unfused_optimizer_of_real_weights_can_be_fused(make: Make) -> None:
    assert not can_be_fused(make(nn.Linear(2, 2)))


def test_inference_has_no_optimizer() -> None:
    assert not can_be_fused(None)


def make_training() -> Context:
    context = make_context(nn.Linear(8, 8), {"input": torch.randn(4, 8)}, phase=Phase.TRAINING)
    for metric in ("latency_cpu_s", "latency_s"):
        context.findings.add(metric, (0.3,), method="")
    return context


def test_a_fused_optimizer_takes_no_further_steps() -> None:
    context = make_training()
    model = context.subject.model
    context.subject.optimizer = optim.AdamW(model.parameters(), fused=True)
    breakdown.report_breakdown(context, model)
    assert context.findings.details["breakdown"]["fused_optimizer_s"] == []


def test_weights_that_torch_cannot_step_fused_have_no_fused_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = make_training()
    take = breakdown.take_steps

    def refuse(context: Context, forward: object, *, num_iterations: int) -> object:
        optimizer = context.subject.optimizer
        assert optimizer is not None
        if optimizer.param_groups[0]["fused"]:
            raise RuntimeError("no fused step for this dtype")
        return take(context, forward, num_iterations=num_iterations)  # type: ignore[arg-type]

    monkeypatch.setattr(breakdown, "take_steps", refuse)
    breakdown.report_breakdown(context, context.subject.model)
    assert context.findings.details["breakdown"]["fused_optimizer_s"] == []
    assert context.findings.metrics["optimizer_s"].samples
