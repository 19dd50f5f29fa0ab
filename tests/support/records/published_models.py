"""Facts that the publishers of the zoo's models state."""

from __future__ import annotations

# The counts that the models' publishers give, or that their published checkpoints have.
PUBLISHED_NUM_PARAMETERS = {
    "bert": 109_514_298,
    "distilbert": 66_985_530,
    "roberta": 124_697_433,
    "albert": 11_221_680,
    "electra": 13_549_057,
    "gpt2": 124_439_808,
    "gpt2_decode": 124_439_808,
    "llama": 1_235_814_400,
    "llama_decode": 1_235_814_400,
    "qwen": 596_049_920,
    "moe": 46_702_792_704,
    "mamba": 129_135_360,
    "t5": 222_903_552,
    "whisper": 241_734_912,
    "vit": 86_567_656,
    "resnet": 25_557_032,
    "convnext": 28_589_128,
    "swin": 28_288_354,
    "efficientnet": 5_288_548,
    "mobilenet": 3_504_872,
    "segformer": 3_752_694,
    "detr": 41_524_768,
    "clip": 151_277_313,
    "unet": 859_520_964,
    "dit": 749_826_464,
    "vae": 49_490_199,
    "dcgan": 6_342_272,
    "nn_transformer": 44_140_544,
    "lstm": 66_034_000,
    "rms_norm": 4_096,
    "softmax": 0,
    "dlrm": 540_677_217,
    "flex_attention": 268_098_176,
}
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
