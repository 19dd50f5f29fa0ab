"""Compiled models call the same fused attention as eager ones do, as often and with which masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size

_ATTENTION = "scaled_dot_product"
# What these are given a mask for when they are compiled, and not in eager (models_zoo/README.md).
_PADDING = "eager reads that nothing is padded and drops the mask; a graph cannot read it"
_PACKING = "eager reads that no texts are packed into one and drops the mask"
_MASKED_WHEN_COMPILED: Mapping[str, str] = {
    **dict.fromkeys(("bert", "distilbert", "roberta", "albert", "electra", "detr"), _PADDING),
    **dict.fromkeys(("gpt2", "llama", "qwen", "moe", "whisper"), _PACKING),
}
# No call of scaled_dot_product_attention, or none that runs on a CPU.
_OTHERS = frozenset(
    (
        *("mamba", "lstm", "dlrm", "resnet", "convnext", "efficientnet", "mobilenet", "dcgan"),
        *("flex_attention", "rms_norm", "softmax", "triton_rms_norm", "triton_softmax"),
    )
)
MODELS = tuple(name for name in CATALOG if name not in _OTHERS)


class _EagerCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.has_mask: Counter[bool] = Counter()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        if _ATTENTION in str(func):
            self.has_mask[(kwargs or {}).get("attn_mask") is not None] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_compiled_attention_is_that_of_eager(name: str) -> None:
    builder = load_builder(CATALOG[name].build)
    config = find_size(CATALOG[name], "tiny").config
    model, inputs = builder.build(config).eval(), builder.example_inputs(config, seed=0)
    compiled: Counter[bool] = Counter()

    def count(graph: torch.fx.GraphModule, _: Any) -> torch.fx.GraphModule:
        for node in graph.graph.nodes:
            if node.op == "call_function" and _ATTENTION in str(node.target):
                compiled[node.kwargs.get("attn_mask") is not None] += 1
        return graph

    with torch.no_grad():
        with _EagerCalls() as eager:
            model(**inputs)
        torch.compile(model, backend=aot_autograd(fw_compiler=count))(**inputs)
    assert eager.has_mask.total() == compiled.total() > 0
    has_more = compiled[True] > eager.has_mask[True]
    assert has_more == (name in _MASKED_WHEN_COMPILED), (eager.has_mask, compiled)
