"""Models get the inputs that recipes pass: the masks of tokenizers, images in channels_last."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from compile_hud.models_zoo.building.inputs import attention_mask, images, pixel_mask, prompts
from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.models_zoo.catalog.tags import has_images

MASKED = [spec for spec in CATALOG.values() if "mask" in spec.sizes["small"].config]
IN_CHANNELS_LAST = [spec for spec in CATALOG.values() if "small_channels_last" in spec.shapes]
masked = pytest.mark.parametrize("spec", MASKED, ids=[spec.name for spec in MASKED])


def inputs_of(spec: ModelSpec, shape: str) -> dict[str, Tensor]:
    return load_builder(spec.build).example_inputs(find_size(spec, shape).config, seed=0)


def masks_of(inputs: dict[str, Tensor]) -> list[Tensor]:
    return [tensor for name, tensor in inputs.items() if name.endswith("_mask")]


def test_the_tags_of_each_model_say_whether_it_has_images() -> None:
    with_images = {
        name
        for name, spec in CATALOG.items()
        if any(
            tensor.dim() == 4 and tensor.is_floating_point()
            for tensor in inputs_of(spec, "tiny").values()
        )
    }
    assert with_images
    assert {name for name, spec in CATALOG.items() if has_images(spec)} == with_images
    assert all(has_images(spec) is not None for spec in CATALOG.values())


@masked
def test_a_shape_has_the_mask_that_its_configuration_names(spec: ModelSpec) -> None:
    kinds = {name: shape.size.config["mask"] for name, shape in spec.shapes.items()}
    kinds["small"] = spec.sizes["small"].config["mask"]
    for shape in [name for name in kinds if name.startswith("small")]:
        masks = masks_of(inputs_of(spec, shape))
        assert len(masks) == (kinds[shape] != "none")
        has_padding = any(bool((mask == 0).any()) for mask in masks)
        assert has_padding == (kinds[shape] == "padded")


@masked
def test_every_masked_model_has_a_padded_shape(spec: ModelSpec) -> None:
    assert {"small_padded", "full_padded"} <= spec.shapes.keys()


@pytest.mark.parametrize("name", ["bert", "t5", "clip", "detr"])
def test_both_ways_are_shapes_where_the_usual_input_has_a_mask(name: str) -> None:
    spec = CATALOG[name]
    assert spec.sizes["full"].config["mask"] == "ones"
    assert masks_of(inputs_of(spec, "small_unmasked")) == []


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "albert", "electra"])
def test_encoders_get_a_mask_of_ones(name: str) -> None:
    (mask,) = masks_of(inputs_of(CATALOG[name], "full"))
    assert mask.shape == (16, 512)
    assert bool(mask.all())


def test_padded_texts_are_shorter_one_by_one_down_to_a_half() -> None:
    mask = attention_mask({"batch": 5, "mask": "padded"}, length=40)["attention_mask"]
    assert mask.sum(dim=1).tolist() == [40, 36, 32, 28, 24]
    assert mask[4].tolist() == [1] * 24 + [0] * 16


def test_prompts_are_padded_on_the_left() -> None:
    config = {"batch": 2, "length": 12, "vocab_size": 9, "mask": "padded"}
    assert prompts(config, seed=3)["attention_mask"][1].tolist() == [0] * 3 + [1] * 9


def test_lower_images_are_padded_below() -> None:
    mask = pixel_mask({"batch": 3, "image_size": 12, "mask": "padded"})["pixel_mask"]
    assert mask.shape == (3, 12, 12)
    assert mask[:, :, 7].sum(dim=1).tolist() == [12, 10, 8]
    assert bool((mask == mask[:, :, :1]).all())


def test_a_padded_text_of_clip_ends_where_its_mask_does() -> None:
    spec = CATALOG["clip"]
    inputs = inputs_of(spec, "small_padded")
    end = int(str(spec.sizes["small"].config["vocab_size"])) - 1
    num_others = (inputs["input_ids"] != end).sum(dim=1)
    assert (num_others + 1).tolist() == inputs["attention_mask"].sum(dim=1).tolist()


@pytest.mark.parametrize("spec", IN_CHANNELS_LAST, ids=[spec.name for spec in IN_CHANNELS_LAST])
def test_images_and_convolutions_are_in_channels_last(spec: ModelSpec) -> None:
    builder, config = load_builder(spec.build), spec.shapes["small_channels_last"].size.config
    pixels = next(
        item for item in inputs_of(spec, "small_channels_last").values() if item.dim() > 3
    )
    assert pixels.is_contiguous(memory_format=torch.channels_last)
    assert not pixels.is_contiguous()
    weights = [item for item in builder.build(config).parameters() if item.dim() == 4]
    assert weights
    assert all(item.is_contiguous(memory_format=torch.channels_last) for item in weights)


def test_the_memory_format_changes_no_pixel() -> None:
    config = {"batch": 2, "image_size": 6}
    usual = images(config, seed=5)
    assert usual.is_contiguous()
    assert torch.equal(usual, images({**config, "memory_format": "channels_last"}, seed=5))
