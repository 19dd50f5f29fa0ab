"""The inputs of encoders are those that a tokenizer returns."""

from __future__ import annotations

import pytest

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size

ENCODERS = sorted(name for name, spec in CATALOG.items() if spec.family == "encoder")


@pytest.mark.parametrize("model", ENCODERS)
@pytest.mark.parametrize(("shape", "is_padded"), [("full", False), ("full_padded", True)])
def test_encoders_get_the_mask_of_a_tokenizer(model: str, shape: str, is_padded: bool) -> None:
    spec = CATALOG[model]
    config = find_size(spec, shape).config
    inputs = load_builder(spec.build).example_inputs(config, seed=0)
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 512
    assert (256 <= lengths[-1] < 300) if is_padded else lengths[-1] == 512


def test_bert_has_a_shape_without_a_mask() -> None:
    spec = CATALOG["bert"]
    config = find_size(spec, "full_unmasked").config
    assert set(load_builder(spec.build).example_inputs(config, seed=0)) == {"input_ids"}
