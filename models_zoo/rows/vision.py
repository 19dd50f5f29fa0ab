"""Models that read images."""

from __future__ import annotations

from models_zoo.rows.sizes import sample_size
from models_zoo.spec import ModelSpec

_VIT = ModelSpec(
    name="vit",
    family="vision",
    build="models_zoo.vit",
    summary="Image patches through a transformer: matrix products of an odd length that fits"
    " no tile.",
    sizes={
        "tiny": sample_size(
            image_size=16,
            patch_size=8,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            num_classes=10,
            batch=2,
        ),
        "small": sample_size(
            image_size=64,
            patch_size=8,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            num_classes=100,
            batch=4,
        ),
        "full": sample_size(
            image_size=224,
            patch_size=16,
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            num_classes=1000,
            batch=32,
        ),
    },
)

_RESNET = ModelSpec(
    name="resnet",
    family="vision",
    build="models_zoo.resnet",
    summary="Convolutions with batch norm and ReLU: folding, fusion and memory layout rather than"
    " matrix products.",
    sizes={
        "tiny": sample_size(
            image_size=32,
            embedding_size=8,
            hidden_sizes=(8, 16),
            depths=(1, 1),
            layer_type="basic",
            num_classes=10,
            batch=2,
        ),
        "small": sample_size(
            image_size=64,
            embedding_size=16,
            hidden_sizes=(64, 128),
            depths=(1, 1),
            layer_type="bottleneck",
            num_classes=100,
            batch=8,
        ),
        "full": sample_size(
            image_size=224,
            embedding_size=64,
            hidden_sizes=(256, 512, 1024, 2048),
            depths=(3, 4, 6, 3),
            layer_type="bottleneck",
            num_classes=1000,
            batch=64,
        ),
    },
)

ROWS = (
    _VIT,
    _RESNET,
)
