"""The transforms of variants before compilation, with and without a real worker."""

from __future__ import annotations

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import nn

from compile_hud.db.records.results import Outcome, Phase
from compile_hud.models_zoo.catalog.spec import NO_TRANSFORM, ModelTransform
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.model_transforms import TransformError, apply_transform
from compile_hud.runner.measure.resources.memory import idle_bytes, storage_bytes
from tests.fixtures.odd_models import Convolution
from tests.support.runs.launch_contexts import make_context
from tests.support.runs.launches import order

CHANNELS_LAST = ModelTransform(memory_format="channels_last")


IMAGE = {"image": torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))}


@pytest.mark.parametrize("phase", [Phase.INFERENCE, Phase.TRAINING])
def test_a_model_in_channels_last_leaves_eager_as_it_was(phase: Phase) -> None:
    subject = make_context(Convolution(), IMAGE, phase=phase).subject
    transformed = apply_transform(subject, transform=CHANNELS_LAST)
    assert transformed is not None
    assert transformed.inputs["image"].is_contiguous(memory_format=torch.channels_last)
    assert transformed.model.convolution.weight.is_contiguous(memory_format=torch.channels_last)
    assert subject.inputs["image"].is_contiguous()
    assert subject.model.convolution.weight.is_contiguous()
    transformed.step(transformed.model)()
    assert subject.model.convolution.weight.grad is None
    assert torch.equal(transformed.inputs["image"], subject.inputs["image"])


def test_without_a_treatment_there_is_no_copy() -> None:
    subject = make_context(Convolution(), IMAGE).subject
    assert apply_transform(subject, transform=NO_TRANSFORM) is None


def test_a_model_without_images_has_no_channels_last(words: SnapshotAssertion) -> None:
    subject = make_context(nn.Linear(4, 4), {"input": torch.ones(2, 4)}).subject
    with pytest.raises(TransformError) as caught:
        apply_transform(subject, transform=CHANNELS_LAST)
    assert str(caught.value) == words


def test_the_other_model_of_a_case_is_not_its_memory() -> None:
    context = make_context(Convolution(), IMAGE)
    assert idle_bytes(context, context.subject.model) == 0
    transformed = make_context(Convolution(), IMAGE).subject
    context = make_context(Convolution(), IMAGE, transformed=transformed)
    # Both models have the same inputs.
    own_bytes = storage_bytes(transformed.model.parameters())
    assert idle_bytes(context, context.subject.model) == own_bytes
    assert idle_bytes(context, transformed.model) == own_bytes


def test_a_transformed_variant_is_measured_with_plain_eager(executor: LocalExecutor) -> None:
    result = executor.execute(order("convolution", variant="channels-last"))
    assert result.outcome is Outcome.OK, result.reason
    assert result.effective_mode == "default"
    assert result.measurement("speedup") is not None
    peak, eager = (result.measurement(name) for name in ("peak_bytes", "eager_peak_bytes"))
    assert peak is not None
    assert eager is not None
    # Neither has the weights of both.
    assert peak.median < 2 * eager.median


@pytest.mark.parametrize(
    ("model", "variant", "phase"),
    [
        ("convolution", "eager-channels-last", "inference"),
        ("plain", "eager-fused-adamw", "training"),
    ],
)
def test_a_transformed_eager_variant_compiles_nothing(
    executor: LocalExecutor, model: str, variant: str, phase: str
) -> None:
    result = executor.execute(order(model, variant=variant, phase=Phase(phase)))
    assert result.outcome is Outcome.OK, result.reason
    assert result.effective_mode == "eager"
    measured = {item.metric for item in result.measurements}
    assert {"speedup", "eager_latency_s", "latency_s"} <= measured
    assert not {name for name in measured if name.startswith("compile_") or name == "graphs"}


@pytest.mark.parametrize(
    "variant",
    [
        "channels-last",
        "regional",
        "eager-channels-last",
    ],
)
def test_an_inapplicable_transform_is_skipped_with_the_reason(
    executor: LocalExecutor, variant: str, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("plain", variant=variant))
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == words
