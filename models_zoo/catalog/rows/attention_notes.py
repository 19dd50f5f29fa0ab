"""Reasons, with the upstream issue, why the attention of eager and compiled differs."""

from __future__ import annotations

PADDING = (
    "Eager reads that nothing is padded and drops the mask. A graph cannot read it"
    " (huggingface/transformers#44188)."
)
PACKING = (
    "Eager reads that no texts are packed into one and makes no mask. A graph makes it"
    " (huggingface/transformers#42367)."
)
FLEX = (
    "FlexAttention is one kernel when it is compiled. Eager computes all scores"
    " (meta-pytorch/attention-gym#165)."
)
