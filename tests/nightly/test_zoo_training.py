"""Models of the zoo whose training step is more than the mean square of their outputs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.loader import Builder, load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG


def made(name: str) -> tuple[nn.Module, dict[str, Tensor], Builder]:
    spec = CATALOG[name]
    builder = load_builder(spec.build)
    config = spec.sizes["tiny"].config
    return builder.build(config).train(), builder.example_inputs(config, seed=0), builder


def parts_with_gradients(model: nn.Module) -> set[str]:
    gradients = {key: value.grad for key, value in model.named_parameters()}
    return {
        key.partition(".")[0]
        for key, gradient in gradients.items()
        if gradient is not None and bool(gradient.any())
    }


@pytest.mark.parametrize(
    ("row", "taught"),
    [(0, {"discriminator"}), (1, {"discriminator"}), (2, {"generator"})],
    ids=["real images", "made images", "made images to teach the generator"],
)
def test_each_row_of_dcgan_teaches_one_network(row: int, taught: set[str]) -> None:
    model, inputs, _ = made("dcgan")
    model(**inputs)[row].sum().backward()
    assert parts_with_gradients(model) == taught


def test_the_made_images_are_judged_alike_in_both_rows_of_dcgan() -> None:
    model, inputs, _ = made("dcgan")
    logits = model(**inputs)
    torch.testing.assert_close(logits[1], logits[2])


@pytest.mark.parametrize(
    ("logits", "loss"),
    [
        # (real, made, made to teach the generator)
        ((0.0, 0.0, 0.0), 3 * math.log(2)),
        ((50.0, -50.0, 50.0), 0.0),
        ((-50.0, -50.0, 50.0), 50.0),
        ((50.0, 50.0, 50.0), 50.0),
        ((50.0, -50.0, -50.0), 50.0),
    ],
)
def test_both_networks_of_dcgan_lose_when_they_err(
    logits: tuple[float, float, float], loss: float
) -> None:
    builder = load_builder(CATALOG["dcgan"].build)
    assert builder.loss is not None
    outputs = torch.tensor(logits)[:, None].expand(3, 4)
    assert float(builder.loss(outputs, {})) == pytest.approx(loss)


@pytest.mark.parametrize(
    ("likeness", "loss"),
    [
        (torch.zeros(4, 4), math.log(4)),
        (100 * torch.eye(4), 0.0),
        (100 * torch.eye(4).roll(1, 0), 100),
    ],
    ids=["all alike", "each its own", "each another's"],
)
def test_clip_loses_when_pairs_are_torn(likeness: Tensor, loss: float) -> None:
    builder = load_builder(CATALOG["clip"].build)
    assert builder.loss is not None
    assert float(builder.loss(likeness, {})) == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("name", ["clip", "dcgan"])
def test_a_loss_of_its_own_reaches_every_parameter(name: str) -> None:
    model, inputs, builder = made(name)
    assert builder.loss is not None
    builder.loss(model(**inputs), inputs).backward()
    unreached = [key for key, value in model.named_parameters() if value.grad is None]
    assert unreached == []
