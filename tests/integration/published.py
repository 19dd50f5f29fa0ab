"""What the publishers of the zoo's models say of them."""

from __future__ import annotations

# The counts that the models' publishers give, or that their published checkpoints hold.
PUBLISHED_NUM_PARAMETERS = {
    "bert": 109_514_298,
    "gpt2": 124_439_808,
    "llama": 1_235_814_400,
    "moe": 46_702_792_704,
    "t5": 222_903_552,
    "vit": 86_567_656,
    "resnet": 25_557_032,
    "unet": 859_520_964,
    "nn_transformer": 44_140_544,
}
# What a row cuts from the published configuration, so that it fits, is put back for the count.
UNCUT = {"moe": {"num_layers": 32}}
# Models without scaled_dot_product_attention, and what they have instead.
WITHOUT_FUSED_ATTENTION = {
    "resnet": "convolutions alone",
}
