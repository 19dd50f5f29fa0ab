"""Models that read images."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.attention_notes import PADDING
from compile_hud.models_zoo.catalog.rows.sizes import named_shapes, sample_size, text_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec, Tolerance

_VIT = ModelSpec(
    name="vit",
    family="vision",
    build="compile_hud.models_zoo.vision.vit",
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
    sweep=SweepSpec(axis="batch"),
)

_RESNET_SIZES = {
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
}
_RESNET = ModelSpec(
    name="resnet",
    family="vision",
    build="compile_hud.models_zoo.vision.resnet",
    summary="Convolutions with batch norm and ReLU: folding, fusion and memory layout rather than"
    " matrix products.",
    sizes=_RESNET_SIZES,
    shapes=named_shapes(_RESNET_SIZES, channels_last={"memory_format": "channels_last"}),
    sweep=SweepSpec(axis="image_size", multiple_of=32),
)

_CONVNEXT_SIZES = {
    "tiny": sample_size(
        image_size=32, hidden_sizes=(8, 16), depths=(1, 1), num_classes=10, batch=2
    ),
    "small": sample_size(
        image_size=64, hidden_sizes=(32, 64), depths=(1, 1), num_classes=100, batch=4
    ),
    "full": sample_size(
        image_size=224,
        hidden_sizes=(96, 192, 384, 768),
        depths=(3, 3, 9, 3),
        num_classes=1000,
        batch=64,
    ),
}
_CONVNEXT = ModelSpec(
    name="convnext",
    family="vision",
    build="compile_hud.models_zoo.vision.convnext",
    summary="Depthwise 7 x 7 convolutions between LayerNorms over channels: what changes memory"
    " layout in every block.",
    sizes=_CONVNEXT_SIZES,
    shapes=named_shapes(_CONVNEXT_SIZES, channels_last={"memory_format": "channels_last"}),
    sweep=SweepSpec(axis="image_size", multiple_of=32),
)

_SWIN = ModelSpec(
    name="swin",
    family="vision",
    build="compile_hud.models_zoo.vision.swin",
    summary="Attention in shifted windows with a learnt bias: rolling, partitioning and masks"
    " around many small matrix products.",
    sizes={
        "tiny": sample_size(
            image_size=32,
            patch_size=4,
            hidden_size=16,
            depths=(2,),
            num_heads=(2,),
            window_size=4,
            num_classes=10,
            batch=2,
        ),
        "small": sample_size(
            image_size=64,
            patch_size=4,
            hidden_size=48,
            depths=(2, 2),
            num_heads=(2, 4),
            window_size=4,
            num_classes=100,
            batch=2,
        ),
        "full": sample_size(
            image_size=224,
            patch_size=4,
            hidden_size=96,
            depths=(2, 2, 6, 2),
            num_heads=(3, 6, 12, 24),
            window_size=7,
            num_classes=1000,
            batch=32,
        ),
    },
    sweep=SweepSpec(axis="batch"),
)

_EFFICIENTNET_SIZES = {
    "tiny": sample_size(
        image_size=32,
        stem_channels=8,
        channels=(8, 16),
        depths=(1, 2),
        kernel_sizes=(3, 5),
        strides=(1, 2),
        expand_ratios=(1, 2),
        head_channels=32,
        num_classes=10,
        batch=2,
    ),
    "small": sample_size(
        image_size=64,
        stem_channels=16,
        channels=(16, 24, 40),
        depths=(1, 1, 1),
        kernel_sizes=(3, 3, 5),
        strides=(1, 2, 2),
        expand_ratios=(1, 6, 6),
        head_channels=128,
        num_classes=100,
        batch=4,
    ),
    "full": sample_size(
        image_size=224,
        stem_channels=32,
        channels=(16, 24, 40, 80, 112, 192, 320),
        depths=(1, 2, 2, 3, 3, 4, 1),
        kernel_sizes=(3, 3, 5, 3, 5, 5, 3),
        strides=(1, 2, 2, 2, 1, 2, 1),
        expand_ratios=(1, 6, 6, 6, 6, 6, 6),
        head_channels=1280,
        num_classes=1000,
        batch=64,
    ),
}
_EFFICIENTNET = ModelSpec(
    name="efficientnet",
    family="vision",
    build="compile_hud.models_zoo.vision.efficientnet",
    summary="Depthwise convolutions with SiLU and a gate over channels: little arithmetic a byte,"
    " so fusion decides.",
    sizes=_EFFICIENTNET_SIZES,
    shapes=named_shapes(_EFFICIENTNET_SIZES, channels_last={"memory_format": "channels_last"}),
    sweep=SweepSpec(axis="image_size", multiple_of=32),
)

_MOBILENET_SIZES = {
    "tiny": sample_size(
        image_size=32,
        stem_channels=8,
        channels=(8, 16),
        depths=(1, 2),
        kernel_sizes=(3, 3),
        strides=(1, 2),
        expand_ratios=(1, 2),
        head_channels=32,
        num_classes=10,
        batch=2,
    ),
    "small": sample_size(
        image_size=64,
        stem_channels=16,
        channels=(16, 24, 32),
        depths=(1, 2, 1),
        kernel_sizes=(3, 3, 3),
        strides=(1, 2, 2),
        expand_ratios=(1, 6, 6),
        head_channels=128,
        num_classes=100,
        batch=4,
    ),
    "full": sample_size(
        image_size=224,
        stem_channels=32,
        channels=(16, 24, 32, 64, 96, 160, 320),
        depths=(1, 2, 3, 4, 3, 3, 1),
        kernel_sizes=(3, 3, 3, 3, 3, 3, 3),
        strides=(1, 2, 2, 2, 1, 2, 1),
        expand_ratios=(1, 6, 6, 6, 6, 6, 6),
        head_channels=1280,
        num_classes=1000,
        batch=64,
    ),
}
_MOBILENET = ModelSpec(
    name="mobilenet",
    family="vision",
    build="compile_hud.models_zoo.vision.mobilenet",
    summary="Inverted bottlenecks with ReLU6 and no gate: the stock of vision on small devices.",
    sizes=_MOBILENET_SIZES,
    shapes=named_shapes(_MOBILENET_SIZES, channels_last={"memory_format": "channels_last"}),
    sweep=SweepSpec(axis="image_size", multiple_of=32),
)

_SEGFORMER = ModelSpec(
    name="segformer",
    family="segmentation",
    build="compile_hud.models_zoo.vision.segformer",
    summary="Attention over thousands of places whose keys are reduced first, and a head that"
    " resizes four resolutions to one.",
    sizes={
        "tiny": sample_size(
            image_size=32,
            depths=(1, 1),
            hidden_sizes=(8, 16),
            num_heads=(1, 2),
            reduction_ratios=(2, 1),
            decoder_size=64,
            num_classes=5,
            batch=2,
        ),
        "small": sample_size(
            image_size=64,
            depths=(1, 1),
            hidden_sizes=(32, 64),
            num_heads=(1, 2),
            reduction_ratios=(4, 2),
            decoder_size=64,
            num_classes=20,
            batch=2,
        ),
        "full": sample_size(
            image_size=512,
            depths=(2, 2, 2, 2),
            hidden_sizes=(32, 64, 160, 256),
            num_heads=(1, 2, 5, 8),
            reduction_ratios=(8, 4, 2, 1),
            decoder_size=256,
            num_classes=150,
            batch=8,
        ),
    },
    sweep=SweepSpec(axis="image_size", multiple_of=32),
)

_DETR_SIZES = {
    "tiny": sample_size(
        image_size=32,
        embedding_size=8,
        hidden_sizes=(8, 16),
        depths=(1, 1),
        layer_type="basic",
        hidden_size=16,
        intermediate_size=32,
        num_layers=1,
        num_heads=2,
        num_queries=4,
        num_classes=5,
        batch=2,
        mask="ones",
    ),
    "small": sample_size(
        image_size=64,
        embedding_size=16,
        hidden_sizes=(64, 128),
        depths=(1, 1),
        layer_type="bottleneck",
        hidden_size=64,
        intermediate_size=256,
        num_layers=1,
        num_heads=4,
        num_queries=20,
        num_classes=20,
        batch=4,
        mask="ones",
    ),
    "full": sample_size(
        image_size=800,
        embedding_size=64,
        hidden_sizes=(256, 512, 1024, 2048),
        depths=(3, 4, 6, 3),
        layer_type="bottleneck",
        hidden_size=256,
        intermediate_size=2048,
        num_layers=6,
        num_heads=8,
        num_queries=100,
        num_classes=91,
        batch=4,
        mask="ones",
    ),
}
_DETR = ModelSpec(
    name="detr",
    family="detection",
    build="compile_hud.models_zoo.vision.detr",
    summary="A convolutional backbone, then an encoder and a decoder with a query for each object:"
    " two kinds of network in one graph.",
    sizes=_DETR_SIZES,
    shapes=named_shapes(_DETR_SIZES, padded={"mask": "padded"}, unmasked={"mask": "none"}),
    sweep=SweepSpec(axis="batch"),
    attention_note=PADDING,
)

_RETINANET = ModelSpec(
    name="retinanet",
    family="detection",
    build="compile_hud.models_zoo.vision.retinanet",
    summary="Thousands of anchors down to the boxes that NMS leaves: shapes that depend on the"
    " image, in the middle of a graph.",
    sizes={
        "tiny": sample_size(
            image_size=32,
            embedding_size=8,
            hidden_sizes=(8, 8, 16, 16),
            depths=(1, 1, 1, 1),
            layer_type="basic",
            pyramid_size=16,
            num_candidates=64,
            num_boxes=20,
            num_classes=5,
            batch=2,
        ),
        "small": sample_size(
            image_size=128,
            embedding_size=16,
            hidden_sizes=(64, 64, 128, 128),
            depths=(1, 1, 1, 1),
            layer_type="bottleneck",
            pyramid_size=32,
            num_candidates=200,
            num_boxes=50,
            num_classes=20,
            batch=2,
        ),
        "full": sample_size(
            image_size=800,
            embedding_size=64,
            hidden_sizes=(256, 512, 1024, 2048),
            depths=(3, 4, 6, 3),
            layer_type="bottleneck",
            pyramid_size=256,
            num_candidates=1000,
            num_boxes=300,
            num_classes=91,
            batch=2,
        ),
    },
    # A choice of boxes has no gradient.
    phases=("inference",),
    # Rounding exchanges boxes of nearly the same score: 0.964 in bf16 at tiny.
    tolerance={
        "bf16": Tolerance(min_cosine=0.9),
        "bf16-autocast": Tolerance(min_cosine=0.9),
        "fp16": Tolerance(min_cosine=0.95),
        "fp16-autocast": Tolerance(min_cosine=0.95),
    },
)

_CLIP_SIZES = {
    "tiny": text_size(
        image_size=16,
        patch_size=8,
        vision_size=32,
        num_vision_heads=2,
        vocab_size=128,
        text_size=16,
        num_text_heads=2,
        num_layers=1,
        projection_size=16,
        max_length=8,
        batch=2,
        length=8,
        mask="ones",
    ),
    "small": text_size(
        image_size=64,
        patch_size=16,
        vision_size=128,
        num_vision_heads=4,
        vocab_size=1000,
        text_size=64,
        num_text_heads=4,
        num_layers=2,
        projection_size=64,
        max_length=32,
        batch=4,
        length=32,
        mask="ones",
    ),
    "full": text_size(
        image_size=224,
        patch_size=32,
        vision_size=768,
        num_vision_heads=12,
        vocab_size=49408,
        text_size=512,
        num_text_heads=8,
        num_layers=12,
        projection_size=512,
        max_length=77,
        batch=32,
        length=77,
        mask="ones",
    ),
}
_CLIP = ModelSpec(
    name="clip",
    family="vision-language",
    build="compile_hud.models_zoo.vision.clip",
    summary="An image and a text tower that meet in one small matrix product: two graphs of"
    " different lengths in one.",
    sizes=_CLIP_SIZES,
    shapes=named_shapes(_CLIP_SIZES, padded={"mask": "padded"}, unmasked={"mask": "none"}),
    sweep=SweepSpec(axis="batch"),
    attention_note=PADDING,
)

ROWS = (
    _VIT,
    _RESNET,
    _CONVNEXT,
    _SWIN,
    _EFFICIENTNET,
    _MOBILENET,
    _SEGFORMER,
    _DETR,
    _RETINANET,
    _CLIP,
)
