"""Models of other kinds."""

from __future__ import annotations

from models_zoo.rows.sizes import pair_size
from models_zoo.spec import ModelSpec

_NN_TRANSFORMER = ModelSpec(
    name="nn_transformer",
    family="transformer",
    build="models_zoo.nn_transformer",
    summary="PyTorch's own layers instead of a library's: the model that compiler articles quote,"
    " in their configuration.",
    sizes={
        "tiny": pair_size(
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=2,
            batch=2,
            source_length=8,
            target_length=4,
        ),
        "small": pair_size(
            hidden_size=128,
            intermediate_size=512,
            num_layers=1,
            num_heads=4,
            batch=4,
            source_length=50,
            target_length=25,
        ),
        "full": pair_size(
            hidden_size=512,
            intermediate_size=2048,
            num_layers=6,
            num_heads=8,
            batch=32,
            source_length=100,
            target_length=50,
        ),
    },
)

ROWS = (_NN_TRANSFORMER,)
