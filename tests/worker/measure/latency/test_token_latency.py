"""The times of the tokens of a model that generates text."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from compile_hud.runner.measure.latency import token_latency
from compile_hud.runner.measure.latency.token_latency import (
    has_tokens,
    percentile_99,
    report_tokens,
)
from compile_hud.runner.protocol.messages import RawMetric
from tests.support.runs.launch_contexts import make_context


class Speaker(nn.Module):
    """A model that reports `num_tokens` tokens."""

    on_token: Callable[[], None] | None = None

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens

    def forward(self, rows: Tensor) -> Tensor:
        for _ in range(self.num_tokens):
            if self.on_token is not None:
                self.on_token()
        return rows


class Clock:
    """Seconds that grow by the given steps, one a reading."""

    def __init__(self, steps: list[float]) -> None:
        self.now_s = 0.0
        self.steps = itertools.cycle(steps)

    def perf_counter(self) -> float:
        self.now_s += next(self.steps)
        return self.now_s


def reported(model: nn.Module, *, monkeypatch: pytest.MonkeyPatch) -> dict[str, RawMetric]:
    context = make_context(model, {"rows": torch.zeros(2)})
    # Longer than the budget: the fewest texts.
    context.findings.add("latency_s", (10.0,), method="by hand")
    # A reading at the call, and one for each of three tokens.
    monkeypatch.setattr(token_latency, "time", Clock([7.0, 0.5, 0.25, 0.125]))
    report_tokens(context, model)
    return {name: raw for name, raw in context.findings.metrics.items() if "token" in name}


def test_times_of_tokens_are_differences_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = reported(Speaker(3), monkeypatch=monkeypatch)
    assert metrics["first_token_s"].samples == (0.5,) * 3
    assert metrics["token_p50_s"].samples == (0.1875,) * 3
    assert metrics["token_p99_s"].samples == (0.25,)


def test_one_token_has_no_time_between_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(reported(Speaker(1), monkeypatch=monkeypatch)) == {"first_token_s"}


def test_a_loop_that_reports_no_token_has_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(Speaker(0), monkeypatch=monkeypatch) == {}


def test_the_hook_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Speaker(2)
    reported(model, monkeypatch=monkeypatch)
    assert model.on_token is None


@pytest.mark.parametrize(("model", "has_them"), [(Speaker(1), True), (nn.Identity(), False)])
def test_a_model_with_the_hook_has_tokens(model: nn.Module, has_them: bool) -> None:
    assert has_tokens(make_context(model, {"rows": torch.zeros(1)})) is has_them


@pytest.mark.parametrize("num_values", [1, 2, 31, 400])
def test_the_percentile_is_that_of_numpy(num_values: int) -> None:
    values = np.random.default_rng(num_values).lognormal(size=num_values)
    assert percentile_99(values.tolist()) == pytest.approx(float(np.percentile(values, 99)))
