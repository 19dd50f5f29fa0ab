"""The reference cases compute the documented result, in the documented memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES

SMALLER: Mapping[str, Mapping[str, Any]] = {
    "ref_gemm": {"width": 8},
    "ref_copy": {"num_bytes": 16384},
    "ref_chain": {"length": 10, "width": 4},
}


def made(name: str, *, seed: int = 0) -> tuple[nn.Module, dict[str, Tensor]]:
    builder = load_builder(REFERENCES[name].build)
    config = SMALLER[name]
    return builder.build(config), builder.example_inputs(config, seed=seed)


@pytest.mark.parametrize("name", REFERENCES)
def test_two_processes_measure_the_same_numbers(name: str) -> None:
    (first, inputs), (again, same), (_, other) = made(name), made(name), made(name, seed=1)
    assert all(torch.equal(inputs[key], same[key]) for key in inputs)
    assert not any(torch.equal(inputs[key], other[key]) for key in inputs)
    assert torch.equal(first(**inputs), again(**same))


def test_the_product_is_one_matrix_product() -> None:
    model, inputs = made("ref_gemm")
    assert inputs["left"].shape == inputs["right"].shape == (8, 8)
    torch.testing.assert_close(model(**inputs), inputs["left"] @ inputs["right"])


def test_the_copy_fills_the_whole_buffer_and_allocates_none() -> None:
    model, inputs = made("ref_copy")
    target = model.get_buffer("target")
    assert target.nbytes == inputs["source"].nbytes == 16384
    outputs = model(**inputs)
    assert torch.equal(target, inputs["source"])
    assert model.get_buffer("target").data_ptr() == target.data_ptr()
    assert outputs.dtype is torch.float32
    assert outputs.numel() == 1024


def test_the_chain_adds_one_in_small_steps() -> None:
    model, inputs = made("ref_chain")
    torch.testing.assert_close(model(**inputs), inputs["start"] + 1)
    with torch.profiler.profile() as profile:
        model(**inputs)
    assert sum(event.name == "aten::add" for event in profile.events()) == 10
