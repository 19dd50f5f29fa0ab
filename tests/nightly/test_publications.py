"""The `full` configurations are the published ones: parameters and multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import masking_utils

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.publications import PUBLICATIONS
from compile_hud.runner.measure.resources.flops import formulas
from tests.support.records.published_models import KERNEL_PARAMETERS, ONLY_ON_A_GPU, UNCUT

README = Path(__file__).parents[2] / "models_zoo" / "README.md"
BUILT = [name for name in CATALOG if name not in ONLY_ON_A_GPU]


def build(name: str, config: Mapping[str, Any]) -> nn.Module:
    with torch.device("meta"):
        return load_builder(CATALOG[name].build).build(config).eval()


def num_parameters(name: str, config: Mapping[str, Any]) -> int:
    return sum(parameter.numel() for parameter in build(name, config).parameters())


@pytest.mark.parametrize("name", BUILT)
def test_the_full_model_has_the_published_number_of_parameters(name: str) -> None:
    config = CATALOG[name].sizes["full"].config
    counted = num_parameters(name, config)
    assert f"| `{name}` | {counted:,} |" in README.read_text(encoding="utf-8")
    if name in KERNEL_PARAMETERS:
        assert counted == KERNEL_PARAMETERS[name]
        return
    row = PUBLICATIONS[name]
    assert counted == row.num_parameters
    if name in UNCUT:
        assert num_parameters(name, {**config, **UNCUT[name]}) == row.published_parameters


@pytest.mark.parametrize("name", [name for name, row in PUBLICATIONS.items() if row.gmacs])
def test_the_multiply_adds_are_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # These read the values of masks, which meta tensors do not have.
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda *_, **__: None)
    for reader in ("_ignore_bidirectional_mask_sdpa", "fast_all"):
        monkeypatch.setattr(masking_utils, reader, lambda *_, **__: True)
    config = dict(CATALOG[name].sizes["full"].config)
    if "mask" in config:
        config["mask"] = "none"
    # Grouped products exist in bf16 alone.
    dtype = torch.bfloat16 if name == "moe" else torch.float32
    model = build(name, config).to(dtype)
    inputs = load_builder(CATALOG[name].build).example_inputs(config, seed=0)
    with (
        torch.no_grad(),
        FlopCounterMode(display=False, custom_mapping=formulas()) as counter,
    ):
        model(**{key: value.to("meta") for key, value in inputs.items()})
    num_samples = CATALOG[name].sizes["full"].num_samples
    gmacs = counter.get_total_flops() / 2e9 / num_samples
    assert float(f"{gmacs:.3g}") == PUBLICATIONS[name].gmacs
