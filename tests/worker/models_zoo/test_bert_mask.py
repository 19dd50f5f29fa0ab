"""The inputs of BERT are those that a tokenizer returns."""

from __future__ import annotations

import pytest

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size


@pytest.mark.parametrize(
    ("shape", "num_tokens"), [("full", 16 * 512), ("full_padded", None), ("full_unmasked", 0)]
)
def test_bert_gets_the_mask_of_a_tokenizer(shape: str, num_tokens: int | None) -> None:
    spec = CATALOG["bert"]
    config = find_size(spec, shape).config
    mask = load_builder(spec.build).example_inputs(config, seed=0).get("attention_mask")
    if num_tokens == 0:
        assert mask is None
        return
    assert mask is not None
    lengths = mask.sum(dim=1).tolist()
    assert lengths == sorted(lengths, reverse=True)
    if num_tokens is None:
        assert (lengths[0], 256 <= lengths[-1] < 300) == (512, True)
    else:
        assert sum(lengths) == num_tokens
