"""Tags of models, which select several at once by their inputs and structure.

Nothing here needs torch.
"""

from __future__ import annotations

from compile_hud.models_zoo.catalog.spec import ModelSpec

# The families of each tag. A model's family is a tag as well.
TAGS = {
    "text": (
        "architecture",
        "decoder",
        "encoder",
        "encoder-decoder",
        "mixture-of-experts",
        "recurrent",
        "state-space",
        "transformer",
    ),
    "language-model": ("decoder", "mixture-of-experts", "recurrent", "state-space"),
    "vision": ("detection", "segmentation", "vision", "vision-language"),
    "image-generation": ("diffusion", "gan"),
}
_OF_IMAGES = ("vision", "image-generation")
_WITHOUT_IMAGES = ("text", "recommender", "kernel")
# One token against a key-value cache.
GENERATION_STEP = "generation-step"


def tags_of(spec: ModelSpec) -> tuple[str, ...]:
    """Return the tags of `spec`: its family, the tags that follow from it, and its own."""
    tags = [spec.family, *(tag for tag, families in TAGS.items() if spec.family in families)]
    if any("cache_length" in size.config for size in spec.sizes.values()):
        tags.append(GENERATION_STEP)
    return tuple(dict.fromkeys((*tags, *spec.tags)))


def has_images(spec: ModelSpec) -> bool | None:
    """Return whether the model takes images or features of them, None for an unknown family."""
    tags = tags_of(spec)
    if any(tag in tags for tag in _OF_IMAGES):
        return True
    return False if any(tag in tags for tag in _WITHOUT_IMAGES) else None
