"""Sparse and nested tensors, gradients of gradients, caches and counters: as people write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure import launch
from compile_hud.runner.measure.accuracy.outputs import flatten_outputs
from compile_hud.runner.measure.accuracy.start_state import ModuleState
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.resources.flops import Traffic, report_work
from compile_hud.runner.measure.subject import fp64_twin
from tests.support import stateful_models as models
from tests.support.nightly import daily_first
from tests.support.runs.launch_contexts import forget_compiled, make_context

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
TRAINING, INFERENCE = Phase.TRAINING, Phase.INFERENCE
BACKENDS = ["eager", "inductor"]
ABOUT_MODELS = frozenset(
    {
        *("nondeterministic-eager", "nondeterministic-variant", "accuracy-not-checked"),
        *("no-fp64-oracle", "memory-grows"),
    }
)
Make = Callable[[], nn.Module]


def plain_inputs() -> dict[str, Tensor]:
    return {"x": models.rows()}


def cut_inputs() -> dict[str, Tensor]:
    """Return the rows of three sequences, and the lengths of these."""
    return {"x": models.rows(9), "lengths": torch.tensor([2, 3, 4])}


def context_of(
    model: nn.Module,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    phase: Phase = INFERENCE,
    backend: str = "eager",
) -> Context:
    torch.manual_seed(1)
    forget_compiled()
    model.train(phase is TRAINING)
    given = plain_inputs() if inputs is None else dict(inputs)
    return make_context(model, given, phase=phase, backend=backend, num_rounds=5)


def measured(
    model: nn.Module, inputs: Mapping[str, Tensor] | None = None, **options: Any
) -> Context:
    """Return the context of a launch of `model` that ended ok."""
    context = context_of(model, inputs, **options)
    ending = launch._measure(context)
    assert ending.reason == ""
    assert "latency_s" in context.findings.metrics
    return context


def codes(context: Context) -> set[str]:
    return ABOUT_MODELS & {item.code for item in context.findings.warnings}


@pytest.mark.parametrize("phase", [INFERENCE, TRAINING])
@pytest.mark.parametrize(
    ("make", "inputs"),
    daily_first(
        [
            (models.SparseOutput, plain_inputs),
            (models.SingleLayer, models.ragged_inputs),
            (models.RaggedInside, cut_inputs),
            (models.GradientPenalty, plain_inputs),
            (models.NeighbourSum, lambda: models.graph_inputs(torch.sparse_coo)),
            (models.NeighbourSum, lambda: models.graph_inputs(torch.sparse_csr)),
        ],
        num_daily=2,
    ),
)
def test_tensors_of_any_layout_are_measured_and_compared(
    make: Make, inputs: Callable[[], dict[str, Tensor]], phase: Phase
) -> None:
    context = measured(make(), inputs(), phase=phase)
    assert not codes(context) - {"no-fp64-oracle"}
    cosine = context.findings.metrics["cosine_similarity"].samples[0]
    assert cosine == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("backend", daily_first(BACKENDS, num_daily=1))
@pytest.mark.parametrize(
    "make",
    daily_first(
        [
            models.CallCounter,
            models.OwnGenerator,
            models.GrowingCache,
            models.ReplacedBuffer,
            models.ListCache,
            models.LazyAttribute,
            models.BufferCache,
        ],
        num_daily=3,
    ),
)
def test_each_compared_run_starts_from_the_first_state_of_the_model(
    make: Make, backend: str
) -> None:
    context = measured(make(), backend=backend)
    assert codes(context) <= {"memory-grows"}


class WrongLater(models.CallCounter):
    """Compiled code counts otherwise."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return 1.2 * y if torch.compiler.is_compiling() else y


def test_a_wrong_answer_of_a_model_with_state_is_still_inaccurate() -> None:
    context = context_of(WrongLater(), backend="inductor")
    assert launch._measure(context).reason != ""


class RandomObject(models.SingleLayer):
    """It draws from an object that nothing can look into."""

    def __init__(self) -> None:
        super().__init__()
        draws = iter(range(1, 10_000))
        self.draw = lambda: next(draws)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / self.draw()


def test_a_model_that_no_state_explains_stays_as_it_is() -> None:
    context = context_of(RandomObject())
    launch._measure(context)
    assert codes(context) == {"nondeterministic-eager"}
    assert not context.subject.has_own_state


def test_attributes_are_restored_in_place_and_later_ones_go() -> None:
    module = models.ListCache()
    keys, module.options = module.keys, {"a": 1}
    state = ModuleState.of(module)
    module(models.rows())
    module.options["b"] = 2
    module.keys, module.later = [torch.ones(1)], "later"
    state.restore()
    assert module.keys is keys
    assert keys == []
    assert module.options == {"a": 1}
    assert not hasattr(module, "later")


def test_a_buffer_that_belongs_to_a_graph_is_named() -> None:
    context = context_of(models.GraphCache(), phase=TRAINING)
    subject = context.subject
    subject.step(subject.model)()
    with pytest.raises(RuntimeError) as caught:
        fp64_twin(subject)
    assert " keys " in str(caught.value)


def test_ragged_shapes_are_compared_by_their_lengths() -> None:
    first, again = (flatten_outputs(models.ragged_inputs()["x"]) for _ in range(2))
    assert first.layout == again.layout
    assert [part.numel() for part in first.parts.values()] == [12 * models.WIDTH]
    dense = flatten_outputs(models.rows().to_sparse())
    assert torch.equal(dense.parts["outputs"], models.rows().reshape(-1))


@pytest.mark.parametrize("phase", [INFERENCE, TRAINING])
def test_work_of_nested_tensors_within_a_model_is_counted(phase: Phase) -> None:
    context = context_of(models.RaggedInside(), cut_inputs(), phase=phase)
    report_work(context)
    num_products = 1 if phase is INFERENCE else 2
    flops = 2 * 9 * models.WIDTH**2 * num_products
    assert context.findings.metrics["flops"].samples == (float(flops),)


def test_an_error_of_the_count_during_backward_ends_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no storage")

    monkeypatch.setattr(Traffic, "_note", fail)
    context = context_of(models.SingleLayer(), phase=TRAINING)
    report_work(context)
    assert [item.code for item in context.findings.warnings] == ["uncounted-work"]
