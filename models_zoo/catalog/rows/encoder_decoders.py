"""Encoders with a decoder: one sequence in, another out."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.attention_notes import PACKING
from compile_hud.models_zoo.catalog.rows.sizes import named_shapes, pair_size, step_size, text_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec

_T5_SIZES = {
    "tiny": pair_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        batch=2,
        source_length=8,
        target_length=4,
        mask="ones",
    ),
    "small": pair_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=1,
        num_heads=4,
        batch=4,
        source_length=64,
        target_length=32,
        mask="ones",
    ),
    "full": pair_size(
        vocab_size=32128,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        batch=8,
        source_length=512,
        target_length=128,
        mask="ones",
    ),
}
_T5 = ModelSpec(
    name="t5",
    family="encoder-decoder",
    build="compile_hud.models_zoo.encoder_decoders.t5",
    summary="Cross-attention and a learnt position bias inside the softmax: attention that the"
    " fused kernels do not cover as it is.",
    sizes=_T5_SIZES,
    shapes=named_shapes(_T5_SIZES, padded={"mask": "padded"}, unmasked={"mask": "none"}),
    sweep=SweepSpec(axis="source_length"),
)

_WHISPER = ModelSpec(
    name="whisper",
    family="encoder-decoder",
    build="compile_hud.models_zoo.encoder_decoders.whisper",
    summary="Convolutions over sound, a long encoder that is not causal and a short decoder:"
    " cross-attention of unlike lengths.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            num_frames=32,
            max_length=448,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=1,
            num_heads=4,
            num_frames=200,
            max_length=448,
            batch=2,
            length=32,
        ),
        "full": text_size(
            vocab_size=51_865,
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            num_frames=3000,
            max_length=448,
            batch=8,
            length=128,
        ),
    },
    sweep=SweepSpec(axis="length"),
    attention_note=PACKING,
)

_T5_DECODE_SIZES = {
    "tiny": step_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        cache_length=16,
        position=8,
        source_length=8,
        batch=2,
        mask="ones",
    ),
    "small": step_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        cache_length=64,
        position=32,
        source_length=64,
        batch=8,
        mask="ones",
    ),
    "full": step_size(
        vocab_size=32128,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        cache_length=256,
        position=128,
        source_length=512,
        batch=8,
        mask="ones",
    ),
}
_T5_DECODE = ModelSpec(
    name="t5_decode",
    family="encoder-decoder",
    build="compile_hud.models_zoo.encoder_decoders.t5_decode",
    summary="One token against two caches, of the target and of the source: a step of translation,"
    " without its encoder.",
    sizes=_T5_DECODE_SIZES,
    shapes=named_shapes(_T5_DECODE_SIZES, padded={"mask": "padded"}, unmasked={"mask": "none"}),
    phases=("inference",),
)

ROWS = (
    _T5,
    _T5_DECODE,
    _WHISPER,
)
