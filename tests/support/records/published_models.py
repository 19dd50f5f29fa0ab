"""Facts that the publishers of the zoo's models state."""

from __future__ import annotations

# Models of a kernel have no publication.
KERNEL_PARAMETERS = {"rms_norm": 4_096, "softmax": 0}
# A row may cut the published configuration so that it fits; the count restores these values.
UNCUT = {"moe": {"num_layers": 32}}
# Models without scaled_dot_product_attention, and their replacement for it.
WITHOUT_FUSED_ATTENTION = {
    "softmax": "a single kernel",
    "flex_attention": "its own kernel, made from a mask",
}
# Graph breaks of torch.compile in these models, and its messages.
NOT_CAPTURED = {
    "lstm": "Attempted to wrap RNN, GRU, or LSTM",
}
# No CPU can build these; README.md gives the reason, and test_triton_kernels.py checks the numbers
# there.
ONLY_ON_A_GPU = ("triton_rms_norm", "triton_softmax")
