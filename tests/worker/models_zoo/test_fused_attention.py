"""Compiled models call the same fused attention as eager ones do, as often and with which masks."""

from __future__ import annotations

import pytest

from benchmarks.attention_fidelity import attention_fidelity, masked_models
from compile_hud.models_zoo.catalog.catalog import CATALOG
from tests.support.nightly import daily_first

# The cheapest model whose compiled form gets a mask, and the cheapest one without any.
_DAILY = (("bert", "ones"), ("vit", ""))
_CASES = (*_DAILY, *(case for case in masked_models() if case not in _DAILY))


@pytest.mark.parametrize(("model", "mask"), daily_first(_CASES, num_daily=len(_DAILY)))
def test_compiled_attention_is_that_of_eager(model: str, mask: str) -> None:
    row = attention_fidelity(model, mask=mask)
    assert row.is_same_kernel, row
    # A padded input has a mask on both sides; else the row of the catalog says why not.
    may_differ = bool(CATALOG[model].attention_note) and mask != "padded"
    assert not row.has_more_masks or may_differ, row


@pytest.mark.nightly
@pytest.mark.parametrize(
    "model", sorted({model for model, _ in _CASES if CATALOG[model].attention_note})
)
def test_a_note_on_attention_is_still_true(model: str) -> None:
    rows = [attention_fidelity(name, mask=mask) for name, mask in _CASES if name == model]
    assert any(row.has_more_masks for row in rows), rows
