"""The possible cases of a campaign: chunks of cases, the most valuable first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compile_hud.db.records.results import Case
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.planning.plan import PlannedCase, make_plan
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import MeasureSettings

_LIGHT = ("eager", "default", "reduce-overhead")
_TUNED = ("max-autotune", "max-autotune-no-cudagraphs")
# One more process costs seconds if nothing is compiled anew, and gives the warm compilation.
_ONCE = MeasureSettings(num_launches=1, max_launches=1, num_rounds=30, budget_s=0.8, sweep=False)
_TWICE = replace(_ONCE, num_launches=2, max_launches=2)
# Settings for a grid of many like cases: the time of an iteration matters, not its breakdown.
_GRID = replace(_ONCE, budget_s=0.4, kernels=False, energy=False)
_STUDIED = (
    *("bert", "vit", "resnet", "gpt2", "t5", "unet", "nn_transformer", "dcgan", "detr", "llama"),
    *("vae", "dit", "convnext", "swin", "qwen", "distilbert", "roberta", "albert", "electra"),
    *("whisper", "mamba", "clip", "segformer"),
)
_TRAINED = ("bert", "resnet", "vit", "convnext", "swin", "mobilenet", "efficientnet", "gpt2")
_IMAGES = ("resnet", "vit", "convnext", "swin", "mobilenet", "efficientnet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Every existing combination of these, measured with the same `settings`."""

    models: tuple[str, ...]
    variants: tuple[str, ...]
    shapes: tuple[str, ...] = ("full",)
    dtypes: tuple[str, ...] = ("bf16",)
    phases: tuple[str, ...] = ("inference",)
    settings: MeasureSettings = _TWICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Cases that answer one question; `worth` is that of one of its cases."""

    name: str
    title: str
    groups: tuple[Group, ...]
    worth: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One case of a chunk with its settings."""

    chunk: Chunk
    planned: PlannedCase
    settings: MeasureSettings

    @property
    def case(self) -> Case:
        return self.planned.case


CHUNKS = (
    Chunk(
        name="grid",
        title="BERT over batch and sequence, with the mask of a tokenizer",
        worth=1.5,
        groups=(
            Group(
                models=("bert",),
                variants=_LIGHT,
                shapes=tuple(f"full-b{batch}-l{n}" for batch in (1, 8, 32) for n in (16, 128, 512)),
                dtypes=("fp32", "fp16", "bf16"),
                settings=_GRID,
            ),
        ),
    ),
    Chunk(
        name="mask",
        title="BERT with a mask of ones, with padding and without a mask",
        worth=6.0,
        groups=(Group(models=("bert",), variants=_LIGHT, shapes=("full_padded", "full_unmasked")),),
    ),
    Chunk(
        name="inference",
        title="Speedup of each mode by family, inference",
        worth=2.0,
        groups=(
            Group(models=_STUDIED, variants=_LIGHT),
            Group(models=_STUDIED, variants=_TUNED, settings=_ONCE),
        ),
    ),
    Chunk(
        name="training",
        title="Training under AMP",
        worth=1.5,
        groups=(
            Group(
                models=_TRAINED,
                variants=("eager", "default", "fused-adamw", "eager-fused-adamw"),
                dtypes=("fp16-autocast",),
                phases=("training",),
                settings=_ONCE,
            ),
            Group(
                models=_TRAINED[:5],
                variants=("max-autotune",),
                dtypes=("fp16-autocast",),
                phases=("training",),
                settings=_ONCE,
            ),
        ),
    ),
    Chunk(
        name="moe",
        title="A mixture of experts, eager and compiled",
        worth=0.6,
        groups=(
            Group(
                models=("moe",),
                variants=("eager", "default"),
                phases=("training", "inference"),
                settings=_ONCE,
            ),
        ),
    ),
    Chunk(
        name="images",
        title="Images: channels_last and CUDA graphs",
        groups=(
            Group(
                models=_IMAGES,
                variants=("eager", "default", "channels-last", "eager-channels-last"),
                dtypes=("fp16-autocast", "fp32"),
                phases=("training",),
                settings=_GRID,
            ),
            Group(
                models=_IMAGES,
                variants=(
                    *("cuda-graph", "reduce-overhead", "reduce-overhead-channels-last"),
                    *("cuda-graph-channels-last", "eager"),
                ),
                dtypes=("fp16-autocast",),
                settings=_GRID,
            ),
        ),
    ),
    Chunk(
        name="decode",
        title="One token against a filled cache",
        groups=(Group(models=("llama_decode", "gpt2_decode"), variants=(*_LIGHT, *_TUNED)),),
    ),
    Chunk(
        name="runtimes",
        title="BERT in other runtimes",
        worth=0.5,
        groups=(
            Group(
                models=("bert",),
                variants=("eager", "onnxruntime", "tensorrt"),
                shapes=tuple(f"full-b{batch}-l{n}" for batch in (1, 8, 32) for n in (16, 128, 512)),
                dtypes=("fp16",),
                settings=_GRID,
            ),
        ),
    ),
)


def works(chunks: Sequence[Chunk] = CHUNKS, *, device: str, size: str = "") -> list[Work]:
    """Return the cases of `chunks` on `device`, each once; `size` replaces `full`, if given.

    A case of two chunks is that of the first one.
    """
    by_key: dict[str, Work] = {}
    for chunk in chunks:
        for group in chunk.groups:
            for planned in _plans(group, device=device, size=size):
                work = Work(chunk=chunk, planned=planned, settings=group.settings)
                by_key.setdefault(planned.case.key, work)
    return list(by_key.values())


def _plans(group: Group, *, device: str, size: str) -> Iterator[PlannedCase]:
    shapes = tuple(name.replace("full", size, 1) if size else name for name in group.shapes)
    for model in group.models:
        spec = CATALOG[model]
        known = tuple(name for name in shapes if "-" in name or name in _names(spec.shapes, spec))
        if not known:
            continue
        yield from make_plan(
            Selection(
                models=(model,),
                modes=tuple(name for name in group.variants if name in VARIANTS),
                phases=group.phases,
                dtypes=group.dtypes,
                shapes=known,
            ),
            catalog=CATALOG,
            device=device,
        )


def _names(shapes: Mapping[str, object], spec: object) -> tuple[str, ...]:
    return (*shapes, *getattr(spec, "sizes", ()))
