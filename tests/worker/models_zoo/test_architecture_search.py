"""The generated family: every shape builds, and has the parameters that its name implies."""

from __future__ import annotations

import pytest
import torch

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.architecture_search import candidate_models

# Layers, width, heads and the width of a feed-forward block, rounded to a multiple of 8.
SHAPES = {
    "arch/8-512-8-2.67": (8, 512, 1368),
    "arch/2-64-4-4": (2, 64, 256),
    "arch/1-8-1-0.1": (1, 8, 8),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_parameters_are_those_of_the_shape(name: str) -> None:
    num_layers, width, ffn_width = SHAPES[name]
    spec = candidate_models([name])[name]
    with torch.device("meta"):
        model = load_builder(spec.build).build(spec.sizes["full"].config)
    layer = 4 * width**2 + 3 * width * ffn_width + 2 * width
    assert sum(item.numel() for item in model.parameters()) == num_layers * layer + width


def test_a_candidate_computes_and_trains() -> None:
    spec = candidate_models(["arch/2-64-4-4"])["arch/2-64-4-4"]
    builder, config = load_builder(spec.build), spec.sizes["tiny"].config
    model, inputs = builder.build(config), builder.example_inputs(config, seed=0)
    outputs = model(**inputs)
    assert outputs.shape == inputs["hidden"].shape == (2, 8, 64)
    outputs.square().mean().backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in model.parameters())


def test_a_token_sees_nothing_behind_it() -> None:
    spec = candidate_models(["arch/2-64-4-4"])["arch/2-64-4-4"]
    builder, config = load_builder(spec.build), spec.sizes["tiny"].config
    model, hidden = builder.build(config), builder.example_inputs(config, seed=0)["hidden"]
    changed = hidden.clone()
    changed[:, 5:] += 1
    before, after = model(hidden), model(changed)
    torch.testing.assert_close(after[:, :5], before[:, :5])
    assert not torch.equal(after[:, 5:], before[:, 5:])
