"""The `full` configuration of each model next to the published one and other benchmarks.

Numbers of parameters and multiply-adds are counted by tests/nightly/test_publications.py. The
inputs of others are those of TorchBench at 0e83c440 and of PyTorch's `benchmarks/dynamo` (the
compiler dashboard) in 2026, batch first. Nothing here needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """The published configuration of a model, and what other benchmarks run.

    Multiply-adds are those of one sample in units of 1e9. `gmacs` are those of `full`;
    `published_gmacs` are the publisher's, by `gmacs_source`.
    """

    source: str
    num_parameters: int
    gmacs: float | None
    published_parameters: int
    published_gmacs: float | None = None
    gmacs_source: str = ""
    torchbench: str = ""
    dashboard: str = ""
    # The reason of a difference from the publication, empty without one.
    difference: str = ""


_TORCHVISION = "torchvision's documentation"

PUBLICATIONS: dict[str, PublishedModel] = {
    "bert": PublishedModel(
        source="`google-bert/bert-base-uncased`",
        num_parameters=109_514_298,
        gmacs=60.6,
        published_parameters=109_514_298,
        torchbench="`hf_Bert`: 1 x 512, no mask",
        dashboard="`BertForMaskedLM`: 16 x 512, no mask, with labels",
    ),
    "bert_batching": PublishedModel(
        source="as `bert`",
        num_parameters=109_514_298,
        gmacs=14.2,
        published_parameters=109_514_298,
    ),
    "distilbert": PublishedModel(
        source="`distilbert/distilbert-base-uncased`",
        num_parameters=66_985_530,
        gmacs=36.5,
        published_parameters=66_985_530,
        torchbench="`hf_DistilBert`: 1 x 512, no mask",
        dashboard="`DistilBertForMaskedLM`: 128 x 128, no mask, with labels",
    ),
    "roberta": PublishedModel(
        source="`FacebookAI/roberta-base`",
        num_parameters=124_697_433,
        gmacs=68.4,
        published_parameters=124_697_433,
        torchbench="`hf_Roberta_base`: XLM-R base, 1 x 512, no mask",
        dashboard="`RobertaForCausalLM`: 16 x 512, one token repeated, no mask, with labels",
    ),
    "albert": PublishedModel(
        source="`albert/albert-base-v2`",
        num_parameters=11_221_680,
        gmacs=50.4,
        published_parameters=11_221_680,
        torchbench="`hf_Albert`: 1 x 512, no mask",
        dashboard="`AlbertForMaskedLM`: the library's default, ALBERT xxlarge, 4 x 512, no mask",
    ),
    "electra": PublishedModel(
        source="`google/electra-small-discriminator`",
        num_parameters=13_549_057,
        gmacs=6.49,
        published_parameters=13_549_057,
        dashboard="`ElectraForCausalLM`: a head over the vocabulary, 32 x 512, no mask",
    ),
    "gpt2": PublishedModel(
        source="`openai-community/gpt2`",
        num_parameters=124_439_808,
        gmacs=146.0,
        published_parameters=124_439_808,
        torchbench="`hf_GPT2`: 1 x 1024",
        dashboard="`GPT2ForSequenceClassification`: 4 x 1024",
    ),
    "gpt2_decode": PublishedModel(
        source="as `gpt2`",
        num_parameters=124_439_808,
        gmacs=0.142,
        published_parameters=124_439_808,
    ),
    "llama": PublishedModel(
        source="`meta-llama/Llama-3.2-1B`",
        num_parameters=1_235_814_400,
        gmacs=1330.0,
        published_parameters=1_235_814_400,
        torchbench="`llama_v2_7b_16h`: Llama 2 7B cut to 16 layers, 512 tokens",
        dashboard="`meta-llama/Llama-3.2-1B`: `generate()`, 1 x 1000 tokens and 2000 new ones",
    ),
    "llama_decode": PublishedModel(
        source="as `llama`",
        num_parameters=1_235_814_400,
        gmacs=1.37,
        published_parameters=1_235_814_400,
        dashboard="a step of `generate()`, as `llama`",
    ),
    "llama_generate": PublishedModel(
        source="as `llama`",
        num_parameters=1_235_814_400,
        gmacs=1110.0,
        published_parameters=1_235_814_400,
        dashboard="`meta-llama/Llama-3.2-1B`: `generate()`, 1 x 1000 tokens and 2000 new ones",
    ),
    "qwen": PublishedModel(
        source="`Qwen/Qwen3-0.6B`",
        num_parameters=596_049_920,
        gmacs=731.0,
        published_parameters=596_049_920,
        dashboard="`Qwen/Qwen3-0.6B`: `generate()`, 1 x 1000 tokens and 2000 new ones",
    ),
    "moe": PublishedModel(
        source="`mistralai/Mixtral-8x7B-v0.1`",
        num_parameters=3_164_688_384,
        gmacs=475.0,
        published_parameters=46_702_792_704,
        torchbench="`hf_mixtral` (canary): all 32 layers, 1 x 512",
        difference="2 of 32 layers, so that it fits into 80 GB with the fp64 copy that checks it",
    ),
    "mamba": PublishedModel(
        source="`state-spaces/mamba-130m-hf`",
        num_parameters=129_135_360,
        gmacs=132.0,
        published_parameters=129_135_360,
    ),
    "t5": PublishedModel(
        source="`google-t5/t5-base`",
        num_parameters=222_903_552,
        gmacs=72.9,
        published_parameters=222_903_552,
        torchbench="`hf_T5_base`: 1 x (2048 + 2048), no mask",
        dashboard="`T5ForConditionalGeneration`: T5 small, 4 x (1024 + 1024), no mask",
    ),
    "t5_decode": PublishedModel(
        source="as `t5`",
        num_parameters=222_903_552,
        gmacs=0.138,
        published_parameters=222_903_552,
        torchbench="`hf_T5_generate`: `generate()` of T5 small",
    ),
    "whisper": PublishedModel(
        source="`openai/whisper-small`",
        num_parameters=241_734_912,
        gmacs=215.0,
        published_parameters=241_734_912,
        torchbench="`hf_Whisper`: the encoder of Whisper tiny, 8 x 3000 frames",
        dashboard="`openai/whisper-tiny`: `generate()`, 1 x 3000 frames",
    ),
    "vit": PublishedModel(
        source="`google/vit-base-patch16-224`",
        num_parameters=86_567_656,
        gmacs=17.6,
        published_parameters=86_567_656,
        published_gmacs=17.6,
        gmacs_source=_TORCHVISION,
        torchbench="`timm_vision_transformer`: ViT small, 32 images",
        dashboard="ViTs of other sizes (DeiT, DINOv2, SigLIP), 128 images",
    ),
    "resnet": PublishedModel(
        source="`microsoft/resnet-50`",
        num_parameters=25_557_032,
        gmacs=4.09,
        published_parameters=25_557_032,
        published_gmacs=4.09,
        gmacs_source=_TORCHVISION,
        torchbench="`resnet50`: 32 images",
        dashboard="`resnet50` of TorchBench: 128 images",
    ),
    "convnext": PublishedModel(
        source="`facebook/convnext-tiny-224`",
        num_parameters=28_589_128,
        gmacs=4.46,
        published_parameters=28_589_128,
        published_gmacs=4.46,
        gmacs_source=_TORCHVISION,
        dashboard="ConvNeXt V2 nano, 128 images",
        difference="layer scale begins at 1 in place of 1e-6, so that a check sees the blocks",
    ),
    "swin": PublishedModel(
        source="`microsoft/swin-tiny-patch4-window7-224`",
        num_parameters=28_288_354,
        gmacs=4.49,
        published_parameters=28_288_354,
        published_gmacs=4.49,
        gmacs_source=_TORCHVISION,
        dashboard="Swin base, 128 images",
    ),
    "efficientnet": PublishedModel(
        source="`google/efficientnet-b0`",
        num_parameters=5_288_548,
        gmacs=0.386,
        published_parameters=5_288_548,
        published_gmacs=0.386,
        gmacs_source=_TORCHVISION,
        torchbench="`timm_efficientnet`: 64 images",
        dashboard="`tf_efficientnet_b0`: 128 images, padded as in TensorFlow",
    ),
    "mobilenet": PublishedModel(
        source="`mobilenet_v2` of torchvision",
        num_parameters=3_504_872,
        gmacs=0.301,
        published_parameters=3_504_872,
        published_gmacs=0.301,
        gmacs_source=_TORCHVISION,
        torchbench="`mobilenet_v2`: 16 images",
        dashboard="`mobilenetv2_100` and `mobilenet_v2`: 128 images",
    ),
    "segformer": PublishedModel(
        source="`nvidia/segformer-b0-finetuned-ade-512-512`",
        num_parameters=3_752_694,
        gmacs=8.39,
        published_parameters=3_752_694,
        published_gmacs=8.4,
        gmacs_source="the paper",
    ),
    "detr": PublishedModel(
        source="`facebook/detr-resnet-50`",
        num_parameters=41_524_768,
        gmacs=60.2,
        published_parameters=41_524_768,
        published_gmacs=86.0,
        gmacs_source="the paper, a mean over images of several sizes",
        difference="square images of 800 pixels; the paper scales the shorter side to 800",
    ),
    "retinanet": PublishedModel(
        source="`retinanet_resnet50_fpn` of torchvision",
        num_parameters=34_068_119,
        gmacs=None,
        published_parameters=34_014_999,
        torchbench="`vision_maskrcnn`: another detector, 1 image; `detectron2_fcos_r_50_fpn`",
        difference="torchvision freezes the norms of the backbone, which are then no parameters;"
        " square images; scores above 0.5 in place of 0.05, since no weight is trained",
    ),
    "clip": PublishedModel(
        source="`openai/clip-vit-base-patch32`",
        num_parameters=151_277_313,
        gmacs=7.39,
        published_parameters=151_277_313,
        torchbench="`torch_multimodal_clip`: 32 images and 32 texts of 77 tokens",
    ),
    "unet": PublishedModel(
        source="Stable Diffusion 1.5",
        num_parameters=859_520_964,
        gmacs=402.0,
        published_parameters=859_520_964,
        torchbench="`stable_diffusion_unet`: Stable Diffusion 2, 1 x 128 x 128, one context vector",
    ),
    "dit": PublishedModel(
        source="`facebook/DiT-XL-2-256`",
        num_parameters=749_826_464,
        gmacs=119.0,
        published_parameters=749_826_464,
        published_gmacs=118.6,
        gmacs_source="the paper",
        difference="the library's form, where each block embeds time and class; the authors' form"
        " does so once and has 675,129,632 parameters",
    ),
    "vae": PublishedModel(
        source="the decoding half of Stable Diffusion 1.5's `AutoencoderKL`",
        num_parameters=49_490_199,
        gmacs=1260.0,
        published_parameters=49_490_199,
    ),
    "dcgan": PublishedModel(
        source="PyTorch's DCGAN tutorial",
        num_parameters=6_342_272,
        gmacs=0.105,
        published_parameters=6_342_272,
        torchbench="`dcgan`: the discriminator alone, 256 images",
        dashboard="`dcgan` of TorchBench: 1024 images",
        difference="weights by He; training steps both networks at once",
    ),
    "nn_transformer": PublishedModel(
        source="`nn.Transformer(512, 8, 6)` of NVIDIA's article on TorchDynamo",
        num_parameters=44_140_544,
        gmacs=3.41,
        published_parameters=44_140_544,
    ),
    "lstm": PublishedModel(
        source="the large model of Zaremba et al. 2014",
        num_parameters=66_034_000,
        gmacs=1.79,
        published_parameters=66_000_000,
        difference="`nn.LSTM` has two biases a gate; the paper rounds to 66 million",
    ),
    "dlrm": PublishedModel(
        source="DLRM's Criteo Kaggle configuration",
        num_parameters=540_677_217,
        gmacs=0.000486,
        published_parameters=540_000_000,
        torchbench="`dlrm`: 8 tables of 1,000,000 x 64, 2048 samples, 100 look-ups each",
        difference="the publisher rounds to 540 million",
    ),
    "flex_attention": PublishedModel(
        source="`google/gemma-3-270m`",
        num_parameters=268_098_176,
        gmacs=None,
        published_parameters=268_098_176,
    ),
}
