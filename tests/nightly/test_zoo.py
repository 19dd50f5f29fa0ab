"""Each model of the zoo: builds, is seeded, computes and trains in every number format."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import Unsupported
from torch._inductor import config as inductor_config
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from compile_hud.models_zoo.building.inputs import token_ids
from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.shapes import axes_of, vary
from compile_hud.models_zoo.catalog.sweeps import sweep_values
from compile_hud.models_zoo.encoders.bert_batching import batch_sizes
from compile_hud.models_zoo.vision.retinanet import nms
from compile_hud.runner.protocol.messages import ShapeSweep
from tests.support.records.published_models import (
    NOT_CAPTURED,
    ONLY_ON_A_GPU,
    WITHOUT_FUSED_ATTENTION,
)

README = Path(__file__).parents[2] / "models_zoo" / "README.md"
BUILT = {name: spec for name, spec in CATALOG.items() if name not in ONLY_ON_A_GPU}
# What goes through one built model at `tiny`, by model.
SWEPT = {
    spec.name: ShapeSweep(axis=spec.sweep.axis, values=values)
    for spec in CATALOG.values()
    if spec.name in BUILT
    and spec.sweep
    and (values := sweep_values(spec.sweep, size=spec.sizes["tiny"]))
}
# In bf16 many scores are equal, and other boxes are left.
ROUNDED = {"retinanet": 0.9}
models = pytest.mark.parametrize("name", BUILT)
trained = pytest.mark.parametrize(
    "name", [name for name, spec in BUILT.items() if "training" in spec.phases]
)
captured = pytest.mark.parametrize(
    ("name", "phase"),
    [
        (name, phase)
        for name, spec in BUILT.items()
        for phase in spec.phases
        if name not in NOT_CAPTURED
    ],
)


def build(name: str) -> nn.Module:
    spec = CATALOG[name]
    return load_builder(spec.build).build(spec.sizes["tiny"].config)


def inputs_of(name: str, *, seed: int = 0) -> dict[str, Tensor]:
    spec = CATALOG[name]
    return load_builder(spec.build).example_inputs(spec.sizes["tiny"].config, seed=seed)


def cast(inputs: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        key: value.to(dtype) if value.is_floating_point() else value
        for key, value in inputs.items()
    }


def infer(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    assert isinstance(outputs, Tensor)
    return outputs


def cosine(left: Tensor, right: Tensor) -> float:
    return float(
        torch.cosine_similarity(left.double().flatten(), right.double().flatten(), dim=0).item()
    )


@models
def test_two_builds_are_equal(name: str) -> None:
    first, second = build(name).state_dict(), build(name).state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


@models
def test_inputs_follow_their_seed(name: str) -> None:
    first, again, other = inputs_of(name), inputs_of(name), inputs_of(name, seed=1)
    assert all(torch.equal(first[key], again[key]) for key in first)
    # A mask says where a text ends, which no seed decides.
    drawn = {key for key in first if not key.endswith("_mask")}
    assert not any(torch.equal(first[key], other[key]) for key in drawn)


@models
def test_every_input_has_the_samples_of_the_catalog(name: str) -> None:
    num_samples = CATALOG[name].sizes["tiny"].num_samples
    assert all(num_samples in tensor.shape for tensor in inputs_of(name).values())


@models
def test_building_leaves_the_global_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    build(name)
    inputs_of(name)
    assert torch.equal(torch.get_rng_state(), before)


@models
def test_outputs_vary_and_depend_on_the_inputs(name: str) -> None:
    model = build(name)
    outputs = infer(model, inputs_of(name))
    assert outputs.dtype is torch.float32
    assert bool(torch.isfinite(outputs).all())
    assert float(outputs.std()) > 1e-3
    assert cosine(outputs, infer(model, inputs_of(name, seed=1))) < 0.999


@pytest.mark.parametrize("name", SWEPT)
def test_one_built_model_takes_every_shape_of_its_sweep(name: str) -> None:
    builder, model, sweep = load_builder(CATALOG[name].build), build(name), SWEPT[name]
    for value in sweep.values:
        config = {**CATALOG[name].sizes["tiny"].config, sweep.axis: value}
        inputs = builder.example_inputs(config, seed=0)
        # What is built for this shape is the same model.
        other = infer(builder.build(config), inputs)
        assert torch.allclose(infer(model, inputs), other, atol=1e-5)


@models
def test_every_axis_of_a_model_can_be_varied(name: str) -> None:
    tiny = CATALOG[name].sizes["tiny"]
    builder = load_builder(CATALOG[name].build)
    usual = num_bytes(build(name), inputs_of(name))
    for axis in axes_of(tiny):
        value = int(str(tiny.config[axis.key]))
        more, less = (3 * value + 1) // 2, value // 2
        allowed = more if axis.allows(more, config=tiny.config) else less
        config = vary(tiny, {axis.key: allowed}).config
        model, inputs = builder.build(config), builder.example_inputs(config, seed=0)
        assert bool(torch.isfinite(infer(model, inputs)).all()), axis.key
        assert num_bytes(model, inputs) != usual, axis.key


def num_bytes(model: nn.Module, inputs: Mapping[str, Tensor]) -> int:
    tensors = (*inputs.values(), *model.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_generation_step_by_step_equals_the_whole_text(name: str) -> None:
    whole, step = build(name).eval(), build(f"{name}_decode").eval()
    assert describe(whole) == describe(step)
    num_read = int(step.get_submodule("cache").get_buffer("position"))
    ids = token_ids(2, num_read + 1, vocab_size=128, seed=0)
    with torch.no_grad():
        read = whole.get_submodule("inner")(input_ids=ids[:, :num_read], use_cache=True)
        fill(step.get_submodule("cache"), read.past_key_values)
    expected = infer(whole, {"input_ids": ids})[:, -1:]
    torch.testing.assert_close(infer(step, {"input_ids": ids[:, num_read:]}), expected)


def test_a_step_of_t5_equals_the_whole_text() -> None:
    whole, step = build("t5").eval(), build("t5_decode").eval()
    assert describe(whole) == describe(step)
    num_read = int(step.get_submodule("cache").get_buffer("position"))
    source = token_ids(2, 8, vocab_size=128, seed=0)
    ids = token_ids(2, num_read + 1, vocab_size=128, seed=1)
    with torch.no_grad():
        read = whole.get_submodule("inner")(
            input_ids=source, decoder_input_ids=ids[:, :num_read], use_cache=True
        )
        fill(step.get_submodule("cache"), read.past_key_values.self_attention_cache)
        fill(step.get_submodule("source"), read.past_key_values.cross_attention_cache)
    expected = infer(whole, {"input_ids": source, "decoder_input_ids": ids})[:, -1:]
    logits = infer(step, {"decoder_input_ids": ids[:, num_read:]})
    torch.testing.assert_close(logits, expected)


def fill(cache: nn.Module, read: Any) -> None:
    for number, layer in enumerate(read.layers):
        for kind in ("keys", "values"):
            filled = getattr(layer, kind)
            cache.get_buffer(f"{kind}_{number}")[:, :, : filled.shape[2]] = filled


def test_generated_logits_are_those_of_the_whole_text() -> None:
    whole, generator = build("llama").eval(), build("llama_generate").eval()
    inputs = inputs_of("llama_generate")
    text = torch.cat([inputs["input_ids"], inputs["next_ids"]], dim=1)
    num_new = inputs["next_ids"].shape[1]
    expected = infer(whole, {"input_ids": text})[:, -num_new - 1 : -1]
    # The cache of a second text holds nothing of the first.
    for _ in range(2):
        torch.testing.assert_close(infer(generator, inputs), expected)


def test_each_new_token_is_reported() -> None:
    generator, calls = build("llama_generate").eval(), []
    generator.on_token = lambda: calls.append(1)  # type: ignore[assignment]
    infer(generator, inputs_of("llama_generate"))
    assert len(calls) == CATALOG["llama_generate"].sizes["tiny"].config["target_length"]


def test_batches_of_a_stream_are_those_of_one_batch() -> None:
    stream, whole = build("bert_batching").eval(), build("bert").eval()
    inputs = inputs_of("bert_batching")
    torch.testing.assert_close(infer(stream, inputs), infer(whole, inputs))


@pytest.mark.parametrize(("num_requests", "sizes"), [(9, [8, 1]), (20, [8, 2, 4, 1, 5]), (3, [3])])
def test_a_stream_has_batches_of_changing_size(num_requests: int, sizes: list[int]) -> None:
    assert batch_sizes(num_requests, largest=8) == sizes


def test_nms_leaves_the_best_of_boxes_that_overlap() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [0, 4, 10, 14]])
    scores = torch.tensor([0.5, 0.9, 0.3, 0.7])
    # The overlaps are 9/11 (first and second), 6/14 (first and last), 54/146 (second and last).
    assert nms(boxes, scores, 0.5).tolist() == [1, 3, 2]
    assert nms(boxes, scores, 0.3).tolist() == [1, 2]
    assert nms(boxes, scores, 0.9).tolist() == [1, 3, 0, 2]


def describe(model: nn.Module) -> dict[str, Any]:
    """Return what transformers knows of `model` beside whether it fills a cache."""
    inner = model.get_submodule("inner")
    assert isinstance(inner, PreTrainedModel)
    return {**inner.config.to_dict(), "use_cache": None}


def test_clip_reads_the_whole_text() -> None:
    model, inputs = build("clip"), inputs_of("clip")
    texts = inputs["input_ids"].clone()
    texts[:, 1] = (texts[:, 1] + 1) % 100
    assert not torch.equal(infer(model, inputs), infer(model, {**inputs, "input_ids": texts}))


@models
def test_fp64_and_bf16_compute_the_same_thing(name: str) -> None:
    model, inputs = build(name), inputs_of(name)
    outputs = infer(model, inputs)
    exact = infer(copy.deepcopy(model).double(), cast(inputs, torch.float64))
    rounded = infer(copy.deepcopy(model).to(torch.bfloat16), cast(inputs, torch.bfloat16))
    assert exact.dtype is torch.float64
    assert rounded.dtype is torch.bfloat16
    assert cosine(outputs, exact) > 1 - 1e-9
    assert cosine(rounded, exact) > ROUNDED.get(name, 0.999)


@models
def test_fp64_is_more_than_fp32_in_a_wider_format(name: str) -> None:
    model, inputs = build(name), inputs_of(name)
    exact = infer(copy.deepcopy(model).double(), cast(inputs, torch.float64))
    assert not torch.equal(exact, exact.float().double())


@models
def test_a_model_goes_to_fp64_and_back(name: str) -> None:
    model, inputs = build(name), inputs_of(name)
    before = infer(model, inputs)
    assert torch.equal(infer(model.double().float(), inputs), before)


@trained
def test_a_training_step_reaches_every_parameter(name: str) -> None:
    model = build(name).train()
    model(**inputs_of(name)).square().mean().backward()
    unreached = [
        key
        for key, parameter in model.named_parameters()
        if parameter.requires_grad
        and (parameter.grad is None or not bool(torch.isfinite(parameter.grad).all()))
    ]
    assert unreached == []


def test_the_gradients_of_fifty_layers_are_more_than_rounding() -> None:
    config = dict(CATALOG["resnet"].sizes["full"].config) | {"batch": 4, "image_size": 64}
    builder = load_builder(CATALOG["resnet"].build)
    images = builder.example_inputs(config, seed=0)["pixel_values"]

    def gradients(dtype: torch.dtype) -> Tensor:
        model = builder.build(config).train().to(dtype)
        model(images.to(dtype)).float().square().mean().backward()
        grads = [item.grad for item in model.parameters() if item.grad is not None]
        return torch.cat([gradient.flatten() for gradient in grads])

    # From 1, where norms start by default, it is 0.9997.
    assert cosine(gradients(torch.float32), gradients(torch.float64)) > 0.99999


@trained
def test_training_is_deterministic(name: str) -> None:
    model, inputs = build(name).train(), inputs_of(name)
    assert torch.equal(model(**inputs), model(**inputs))


class Calls(TorchFunctionMode):
    """The names of all functions of torch that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", [name for name in BUILT if name not in WITHOUT_FUSED_ATTENTION])
def test_attention_is_the_fused_one(name: str) -> None:
    model, inputs = build(name).train(), inputs_of(name)
    with Calls() as calls:
        model(**inputs)
    # Without a softmax there is no attention that could be another one.
    assert "scaled_dot_product_attention" in calls.names or "softmax" not in calls.names


# Inductor's own, when it is first imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.slow
@captured
def test_a_model_is_captured_whole(name: str, phase: str) -> None:
    model, inputs = build(name).train(phase == "training"), inputs_of(name)
    torch.compiler.reset()
    # Training as far as both passes are captured: generating their code would take twice as long.
    backend = "aot_eager" if phase == "training" else "inductor"
    # `fullgraph` makes a graph break an error.
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    # One thread, or each of the modules that pytest runs side by side starts a pool of compilers.
    with torch.set_grad_enabled(phase == "training"), inductor_config.patch(compile_threads=1):
        eager, captured = model(**inputs), compiled(**inputs)
    torch.testing.assert_close(captured, eager, rtol=1e-4, atol=1e-5)
    if phase == "training":
        captured.square().mean().backward()


@pytest.mark.parametrize(("name", "reason"), NOT_CAPTURED.items())
def test_what_the_readme_calls_not_captured_is_not(name: str, reason: str) -> None:
    model, inputs = build(name).eval(), inputs_of(name)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with pytest.raises(Unsupported, match=reason), torch.no_grad():
        compiled(**inputs)
    assert f"| `{name}` | Dynamo" in README.read_text(encoding="utf-8")
