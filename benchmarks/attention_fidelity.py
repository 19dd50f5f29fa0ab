"""Compare the attention calls of each eager model of the zoo with those of its compiled form.

Each model of the zoo runs at `tiny` on the CPU, with every mask that its shapes have. Eager calls
are counted in the dispatcher, compiled ones in the graph that Inductor gets. On a CPU, Inductor
leaves such a call as it is. A call counts if the kind of its operator is `attention`.
`--out` writes the document from which docs/reference/zoo.md is generated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.startup import RESULTS, describe_machine
from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.spec import ConfigValue, ModelSpec
from compile_hud.runner.traces.kernel_kinds import class_of_operator

# 1: first version.
SCHEMA_VERSION = 1
# The dispatcher does not show FlexAttention in eager mode: it is no operator.
NOT_COUNTED = ("flex_attention",)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCalls:
    """The calls of attention in one forward pass, with and without a mask."""

    masked: int
    unmasked: int

    @classmethod
    def of(cls, calls: Counter[bool]) -> AttentionCalls:
        """Return the calls of a counter by "has a mask"."""
        return cls(masked=calls[True], unmasked=calls[False])

    @property
    def total(self) -> int:
        return self.masked + self.unmasked


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """The attention of one model with one kind of mask in its inputs, "" for a model without."""

    model: str
    mask: str
    eager: AttentionCalls
    compiled: AttentionCalls

    @property
    def is_same_kernel(self) -> bool:
        """Return whether eager and compiled call attention equally often."""
        return self.eager.total == self.compiled.total

    @property
    def has_more_masks(self) -> bool:
        """Return whether compiled attention has masks that eager's has not."""
        return self.compiled.masked > self.eager.masked


def masked_models() -> Iterator[tuple[str, str]]:
    """Yield the models that run on a CPU, each with every mask that its inputs may have."""
    for spec in CATALOG.values():
        if spec.family != "kernel" and spec.name not in NOT_COUNTED:
            yield from ((spec.name, mask) for mask in masks_of(spec))


def masks_of(spec: ModelSpec) -> tuple[str, ...]:
    """Return the kinds of masks of the inputs, the usual one first; ("",) for a model without."""
    configs = [spec.sizes["full"].config, *(shape.size.config for shape in spec.shapes.values())]
    return tuple(dict.fromkeys(str(config.get("mask", "")) for config in configs))


def attention_fidelity(model: str, *, mask: str) -> Fidelity:
    """Return the attention calls of `model` at `tiny`, eager and compiled."""
    spec = CATALOG[model]
    config: Mapping[str, ConfigValue] = spec.sizes["tiny"].config
    if mask:
        config = {**config, "mask": mask}
    builder = load_builder(spec.build)
    module, inputs = builder.build(config).eval(), builder.example_inputs(config, seed=0)
    compiled: Counter[bool] = Counter()
    torch.compiler.reset()
    with torch.no_grad():
        with _EagerCalls() as eager:
            module(**inputs)
        if eager.has_mask:
            torch.compile(module, backend=_counting_backend(compiled))(**inputs)
    return Fidelity(
        model=model,
        mask=mask,
        eager=AttentionCalls.of(eager.has_mask),
        compiled=AttentionCalls.of(compiled),
    )


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
        if _is_attention(func):
            self.has_mask[(kwargs or {}).get("attn_mask") is not None] += 1
        return func(*args, **(kwargs or {}))


def _counting_backend(calls: Counter[bool]) -> Callable[..., Any]:
    def count(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        per_call = Counter(
            node.kwargs.get("attn_mask") is not None
            for node in graph.graph.nodes
            if node.op == "call_function" and _is_attention(node.target)
        )

        # A model with a loop calls a graph several times.
        def run(*tensors: Any) -> Any:
            calls.update(per_call)
            return graph(*tensors)

        return run

    backend: Callable[..., Any] = aot_autograd(fw_compiler=count)
    return backend


def _is_attention(operator: object) -> bool:
    if not isinstance(operator, torch._ops.OpOverload):
        return False
    name = operator.name().partition(".")[0]
    return class_of_operator(name, has_children=False).kind == "attention"


def main(arguments: Sequence[str]) -> int:
    """Write the document; return the exit status: 1 if eager and compiled kernels differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "attention_fidelity.json")
    options = parser.parse_args(arguments)
    rows = [attention_fidelity(model, mask=mask) for model, mask in masked_models()]
    document = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "attention_fidelity",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "rows": [
            {
                "model": row.model,
                "mask": row.mask,
                **{
                    side: {"masked": calls.masked, "unmasked": calls.unmasked}
                    for side, calls in (("eager", row.eager), ("compiled", row.compiled))
                },
            }
            for row in rows
        ],
    }
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.is_same_kernel for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
