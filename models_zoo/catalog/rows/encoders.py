"""Encoders: attention sees the whole text.

Their `mask` is that of a tokenizer: all ones if the texts of a batch have one length.
"""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.attention_notes import PADDING
from compile_hud.models_zoo.catalog.rows.sizes import named_shapes, text_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec

_BERT_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        max_length=512,
        batch=2,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=512,
        batch=4,
        length=64,
        mask="ones",
    ),
    "full": text_size(
        vocab_size=30522,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        max_length=512,
        batch=16,
        length=512,
        mask="ones",
    ),
}
_BERT = ModelSpec(
    name="bert",
    family="encoder",
    build="compile_hud.models_zoo.encoders.bert",
    summary="Bidirectional attention, LayerNorm and GELU: the stock of deployed text models.",
    sizes=_BERT_SIZES,
    shapes=named_shapes(_BERT_SIZES, padded={"mask": "padded"}, unmasked={"mask": "none"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PADDING,
)

_DISTILBERT_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        max_length=512,
        batch=2,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=512,
        batch=4,
        length=64,
        mask="ones",
    ),
    "full": text_size(
        vocab_size=30522,
        hidden_size=768,
        num_layers=6,
        num_heads=12,
        max_length=512,
        batch=16,
        length=512,
        mask="ones",
    ),
}
_DISTILBERT = ModelSpec(
    name="distilbert",
    family="encoder",
    build="compile_hud.models_zoo.encoders.distilbert",
    summary="BERT with half of its layers and no token types: less work for each launch.",
    sizes=_DISTILBERT_SIZES,
    shapes=named_shapes(_DISTILBERT_SIZES, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PADDING,
)

_ROBERTA_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        max_length=512,
        batch=2,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=512,
        batch=4,
        length=64,
        mask="ones",
    ),
    "full": text_size(
        vocab_size=50265,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        max_length=512,
        batch=16,
        length=512,
        mask="ones",
    ),
}
_ROBERTA = ModelSpec(
    name="roberta",
    family="encoder",
    build="compile_hud.models_zoo.encoders.roberta",
    summary="Positions counted from the padding by a cumulative sum, and a vocabulary of 50,000.",
    sizes=_ROBERTA_SIZES,
    shapes=named_shapes(_ROBERTA_SIZES, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PADDING,
)

_ALBERT_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        embedding_size=16,
        hidden_size=32,
        num_layers=2,
        num_heads=2,
        max_length=512,
        batch=2,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        vocab_size=1000,
        embedding_size=64,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=512,
        batch=4,
        length=64,
        mask="ones",
    ),
    "full": text_size(
        vocab_size=30000,
        embedding_size=128,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        max_length=512,
        batch=16,
        length=512,
        mask="ones",
    ),
}
_ALBERT = ModelSpec(
    name="albert",
    family="encoder",
    build="compile_hud.models_zoo.encoders.albert",
    summary="One layer's weights used twelve times over: a graph of many calls to few weights, and"
    " gradients that add up.",
    sizes=_ALBERT_SIZES,
    shapes=named_shapes(_ALBERT_SIZES, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PADDING,
)

_ELECTRA_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        embedding_size=16,
        hidden_size=32,
        num_layers=2,
        num_heads=2,
        max_length=512,
        batch=2,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        vocab_size=1000,
        embedding_size=64,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=512,
        batch=4,
        length=64,
        mask="ones",
    ),
    "full": text_size(
        vocab_size=30522,
        embedding_size=128,
        hidden_size=256,
        num_layers=12,
        num_heads=4,
        max_length=512,
        batch=16,
        length=512,
        mask="ones",
    ),
}
_ELECTRA = ModelSpec(
    name="electra",
    family="encoder",
    build="compile_hud.models_zoo.encoders.electra",
    summary="A narrow encoder that judges each token instead of choosing from the vocabulary:"
    " matrix products too small to fill a device.",
    sizes=_ELECTRA_SIZES,
    shapes=named_shapes(_ELECTRA_SIZES, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PADDING,
)

_BERT_BATCHING_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        max_length=512,
        batch=8,
        largest_batch=4,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=512,
        batch=18,
        largest_batch=4,
        length=32,
        mask="ones",
    ),
    "full": text_size(
        vocab_size=30522,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        max_length=512,
        batch=65,
        largest_batch=16,
        length=128,
        mask="ones",
    ),
}
_BERT_BATCHING = ModelSpec(
    name="bert_batching",
    family="encoder",
    build="compile_hud.models_zoo.encoders.bert_batching",
    summary="A stream of batches of changing size through one model, as a server makes them:"
    " dynamic shapes, or a CUDA graph for each size.",
    sizes=_BERT_BATCHING_SIZES,
    shapes=named_shapes(_BERT_BATCHING_SIZES, padded={"mask": "padded"}),
    phases=("inference",),
    attention_note=PADDING,
)

ROWS = (
    _BERT,
    _BERT_BATCHING,
    _DISTILBERT,
    _ROBERTA,
    _ALBERT,
    _ELECTRA,
)
