"""CUDA graphs recorded by hand, where the recorder only takes notes; test_gpu.py has real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.accuracy.step import check_result, make_reference
from compile_hud.runner.measure.compile.compiler import (
    effective_mode,
    is_by_dynamo,
    unavailable_reason,
)
from compile_hud.runner.measure.compile.cuda_graph import GraphedModel
from compile_hud.runner.measure.compile.dynamo import read_counts, reset
from compile_hud.runner.measure.device import Device
from tests.support.runs.launch_contexts import CPU, make_context
from tests.support.runs.launches import order

CUDA = Device(kind="cuda", num_threads=1)


class Sum(nn.Module):
    """A weighted sum of two inputs, with a weight that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, *, left: Tensor, right: Tensor) -> Tensor:
        total: Tensor = self.layer(left) + 2 * right
        return total


class Recorder:
    """`make_graphed_callables` on a CPU: it replaces `forward` and reads inputs where they lay."""

    def __init__(self) -> None:
        self.recorded: list[tuple[Tensor, ...]] = []
        self.num_replays = 0
        self.autocast: list[tuple[bool, bool]] = []

    def __call__(
        self, module: nn.Module, static: tuple[Tensor, ...], *, allow_unused_input: bool
    ) -> Callable[..., Any]:
        assert allow_unused_input
        self.recorded.append(static)
        cached = torch.is_autocast_cache_enabled()
        self.autocast.append((torch.is_autocast_enabled("cpu"), cached))
        original = module.forward

        def replay(*tensors: Tensor) -> Any:
            self.num_replays += 1
            for index, tensor in zip(static, tensors, strict=True):
                index.copy_(tensor)
            return original(*static)

        module.forward = replay  # type: ignore[method-assign]
        return module


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    fake = Recorder()
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", fake)
    return fake


def inputs() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(2, 8, generator=generator) for name in ("left", "right")}


def test_one_graph_is_recorded_and_the_model_stays_as_it_was(recorder: Recorder) -> None:
    model = Sum()
    graphed = GraphedModel(model=model, device=CPU)
    first, second = inputs(), {name: 3 * tensor for name, tensor in inputs().items()}
    torch.testing.assert_close(graphed(**first), model(**first))
    # In another order and with other numbers.
    outputs = graphed(right=second["right"], left=second["left"])
    torch.testing.assert_close(outputs, model(**second))
    assert len(recorder.recorded) == 1
    assert recorder.num_replays == 2
    assert "forward" not in vars(model)


def test_the_graph_reads_inputs_of_its_own(recorder: Recorder) -> None:
    arguments = inputs()
    GraphedModel(model=Sum(), device=CPU)(**arguments)
    own, theirs = recorder.recorded[0], tuple(arguments.values())
    assert all(torch.equal(one, other) for one, other in zip(own, theirs, strict=True))
    assert not {item.data_ptr() for item in own} & {item.data_ptr() for item in theirs}


def test_it_is_recorded_in_the_mode_of_the_model(recorder: Recorder) -> None:
    for model in (Sum().eval(), Sum().train()):
        is_layer_training = not model.training
        model.layer.train(is_layer_training)
        graphed = GraphedModel(model=model, device=CPU)
        graphed(**inputs())
        assert isinstance(graphed._replay, nn.Module)
        assert graphed._replay.training == model.training
        assert model.layer.training == is_layer_training
    assert len(recorder.recorded) == 2


@pytest.mark.parametrize("dtype", [Dtype.FP32, Dtype.BF16_AUTOCAST])
def test_what_autocast_casts_is_recorded_as_well(recorder: Recorder, dtype: Dtype) -> None:
    subject = make_context(Sum(), inputs(), dtype=dtype).subject
    graphed = GraphedModel(model=subject.model, device=CPU)
    subject.step(graphed)()
    assert recorder.autocast == [(dtype is Dtype.BF16_AUTOCAST, False)]
    assert torch.is_autocast_cache_enabled()


@pytest.mark.usefixtures("recorder")
@pytest.mark.parametrize("phase", [Phase.INFERENCE, Phase.TRAINING])
def test_outputs_and_gradients_are_held_against_the_oracle(phase: Phase) -> None:
    context = make_context(Sum(), inputs(), phase=phase, backend="cuda_graph")
    reference = make_reference(context.subject)
    graphed = GraphedModel(model=context.subject.model, device=CPU)
    assert check_result(context, graphed, reference=reference) == ""


def test_nothing_of_it_is_by_dynamo() -> None:
    case = order("plain", variant="cuda-graph").case
    assert not is_by_dynamo(case)
    assert is_by_dynamo(order("plain", variant="default").case)
    reset()
    assert effective_mode(case, counts=read_counts(), device=CUDA) == ("eager", ())


@pytest.mark.parametrize(
    ("variant", "is_missing"),
    [
        ("cuda-graph", True),
        ("reduce-overhead", True),
        ("max-autotune", True),
        ("reduce-overhead-channels-last", True),
        ("max-autotune-no-cudagraphs", False),
        ("default", False),
        ("eager", False),
    ],
)
def test_a_cpu_has_no_cuda_graphs(variant: str, is_missing: bool) -> None:
    case = order("plain", variant=variant).case
    assert (unavailable_reason(case, device=CPU) is not None) is is_missing
    assert unavailable_reason(case, device=CUDA) is None
