"""Encoders: attention sees the whole text."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.models_zoo.catalog.rows.sizes import text_size
from compile_hud.models_zoo.catalog.spec import ConfigValue, ModelSpec, NamedShape, SweepSpec

_BERT_FULL: Mapping[str, ConfigValue] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "max_length": 512,
    "batch": 16,
    "length": 512,
}
_BERT = ModelSpec(
    name="bert",
    family="encoder",
    build="compile_hud.models_zoo.encoders.bert",
    summary="Bidirectional attention, LayerNorm and GELU: the stock of deployed text models.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            max_length=512,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            max_length=512,
            batch=4,
            length=64,
        ),
        "full": text_size(**_BERT_FULL),
    },
    # Without `mask` the texts of a batch have one length, and the tokenizer's mask is all ones.
    shapes={
        "full_padded": NamedShape(size=text_size(**_BERT_FULL, mask="padded")),
        "full_unmasked": NamedShape(size=text_size(**_BERT_FULL, mask="none")),
    },
    sweep=SweepSpec(axis="length"),
)

_DISTILBERT_FULL: Mapping[str, ConfigValue] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_layers": 6,
    "num_heads": 12,
    "max_length": 512,
    "batch": 16,
    "length": 512,
}

_DISTILBERT = ModelSpec(
    name="distilbert",
    family="encoder",
    build="compile_hud.models_zoo.encoders.distilbert",
    summary="BERT with half of its layers and no token types: less work for each launch.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            max_length=512,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            max_length=512,
            batch=4,
            length=64,
        ),
        "full": text_size(**_DISTILBERT_FULL),
    },
    shapes={"full_padded": NamedShape(size=text_size(**_DISTILBERT_FULL, mask="padded"))},
    sweep=SweepSpec(axis="length"),
)

_ROBERTA_FULL: Mapping[str, ConfigValue] = {
    "vocab_size": 50265,
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "max_length": 512,
    "batch": 16,
    "length": 512,
}

_ROBERTA = ModelSpec(
    name="roberta",
    family="encoder",
    build="compile_hud.models_zoo.encoders.roberta",
    summary="Positions counted from the padding by a cumulative sum, and a vocabulary of 50,000.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            max_length=512,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            max_length=512,
            batch=4,
            length=64,
        ),
        "full": text_size(**_ROBERTA_FULL),
    },
    shapes={"full_padded": NamedShape(size=text_size(**_ROBERTA_FULL, mask="padded"))},
    sweep=SweepSpec(axis="length"),
)

_ALBERT_FULL: Mapping[str, ConfigValue] = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "max_length": 512,
    "batch": 16,
    "length": 512,
}

_ALBERT = ModelSpec(
    name="albert",
    family="encoder",
    build="compile_hud.models_zoo.encoders.albert",
    summary="One layer's weights used twelve times over: a graph of many calls to few weights, and"
    " gradients that add up.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            embedding_size=16,
            hidden_size=32,
            num_layers=2,
            num_heads=2,
            max_length=512,
            batch=2,
            length=8,
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
        ),
        "full": text_size(**_ALBERT_FULL),
    },
    shapes={"full_padded": NamedShape(size=text_size(**_ALBERT_FULL, mask="padded"))},
    sweep=SweepSpec(axis="length"),
)

_ELECTRA_FULL: Mapping[str, ConfigValue] = {
    "vocab_size": 30522,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_layers": 12,
    "num_heads": 4,
    "max_length": 512,
    "batch": 16,
    "length": 512,
}

_ELECTRA = ModelSpec(
    name="electra",
    family="encoder",
    build="compile_hud.models_zoo.encoders.electra",
    summary="A narrow encoder that judges each token instead of choosing from the vocabulary:"
    " matrix products too small to fill a device.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            embedding_size=16,
            hidden_size=32,
            num_layers=2,
            num_heads=2,
            max_length=512,
            batch=2,
            length=8,
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
        ),
        "full": text_size(**_ELECTRA_FULL),
    },
    shapes={"full_padded": NamedShape(size=text_size(**_ELECTRA_FULL, mask="padded"))},
    sweep=SweepSpec(axis="length"),
)

ROWS = (
    _BERT,
    _DISTILBERT,
    _ROBERTA,
    _ALBERT,
    _ELECTRA,
)
