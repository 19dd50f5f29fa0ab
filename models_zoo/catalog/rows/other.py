"""Models of other kinds."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.attention_notes import FLEX
from compile_hud.models_zoo.catalog.rows.sizes import pair_size, sample_size, text_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec

_NN_TRANSFORMER = ModelSpec(
    name="nn_transformer",
    family="transformer",
    build="compile_hud.models_zoo.encoder_decoders.nn_transformer",
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
    sweep=SweepSpec(axis="source_length"),
)

_LSTM = ModelSpec(
    name="lstm",
    family="recurrent",
    build="compile_hud.models_zoo.decoders.lstm",
    summary="One step after the other, each waiting for the one before: what a compiler leaves to"
    " the library.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=2,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            batch=4,
            length=64,
        ),
        "full": text_size(
            vocab_size=10_000,
            hidden_size=1500,
            num_layers=2,
            batch=20,
            length=35,
        ),
    },
    sweep=SweepSpec(axis="length"),
)

# The distinct values of the 26 categories of the Criteo Kaggle data, one table each.
CRITEO_TABLE_SIZES = (
    1_460,
    583,
    10_131_227,
    2_202_608,
    305,
    24,
    12_517,
    633,
    3,
    93_145,
    5_683,
    8_351_593,
    3_194,
    27,
    14_992,
    5_461_306,
    10,
    5_652,
    2_173,
    4,
    7_046_547,
    18,
    15,
    286_181,
    105,
    142_572,
)

_DLRM = ModelSpec(
    name="dlrm",
    family="recommender",
    build="compile_hud.models_zoo.recommenders.dlrm",
    summary="Tables looked up at random and tiny networks: gathering and launching, not"
    " arithmetic.",
    sizes={
        "tiny": sample_size(
            table_sizes=(10, 20, 30),
            embedding_size=8,
            bottom_sizes=(16,),
            top_sizes=(16,),
            batch=2,
        ),
        "small": sample_size(
            table_sizes=(1_000,) * 26,
            embedding_size=16,
            bottom_sizes=(512, 256, 64),
            top_sizes=(512, 256),
            batch=64,
        ),
        "full": sample_size(
            table_sizes=CRITEO_TABLE_SIZES,
            embedding_size=16,
            bottom_sizes=(512, 256, 64),
            top_sizes=(512, 256),
            batch=2048,
        ),
    },
    sweep=SweepSpec(axis="batch"),
)

_FLEX_ATTENTION = ModelSpec(
    name="flex_attention",
    family="decoder",
    build="compile_hud.models_zoo.decoders.flex_attention",
    summary="Attention that is written down as a mask and generated as a kernel: whole blocks are"
    " left out.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_layers=2,
            num_heads=2,
            num_key_value_heads=1,
            head_size=16,
            window=16,
            pattern=2,
            block_size=16,
            batch=2,
            length=64,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=64,
            intermediate_size=256,
            num_layers=2,
            num_heads=2,
            num_key_value_heads=1,
            head_size=32,
            window=64,
            pattern=2,
            block_size=64,
            batch=1,
            length=256,
        ),
        "full": text_size(
            vocab_size=262_144,
            hidden_size=640,
            intermediate_size=2048,
            num_layers=18,
            num_heads=4,
            num_key_value_heads=1,
            head_size=256,
            window=512,
            pattern=6,
            block_size=128,
            batch=1,
            length=4096,
        ),
    },
    # FlexAttention has no backward pass on a CPU.
    phases=("inference",),
    sweep=SweepSpec(axis="batch"),
    attention_note=FLEX,
)

ROWS = (
    _NN_TRANSFORMER,
    _LSTM,
    _DLRM,
    _FLEX_ATTENTION,
)
