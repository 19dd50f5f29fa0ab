"""What the catalog says about a model. Nothing here needs torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

ConfigValue = int | float | str | bool | tuple[int, ...]
# What the build string of every model of the zoo begins with.
ZOO_PREFIX = "compile_hud.models_zoo."


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSpec:
    """One size of a model: its configuration and the inputs of its default shape.

    `config` goes to the model file's `build()` and `example_inputs()` as it is. `num_samples` is
    the batch; `num_tokens` is what one iteration reads (batch x length), None where it has none.
    """

    config: Mapping[str, ConfigValue]
    num_samples: int
    num_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedShape:
    """A named shape; suites measure only those that are tracked (`is_tracked`)."""

    size: SizeSpec
    is_tracked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a model's results may be from the fp64 oracle before they are `inaccurate`.

    None is the default of the dtype (runner/measure/accuracy/metrics.py): the smallest cosine
    similarity of an output and of the gradients, the RMS error relative to the oracle's size that
    is always allowed, the largest multiple of eager's RMS error, and the share of integers that may
    differ.
    """

    min_cosine: float | None = None
    min_gradient_cosine: float | None = None
    rounding_rmse: float | None = None
    max_rmse_ratio: float | None = None
    max_discrete_share: float | None = None

    @property
    def set_fields(self) -> dict[str, float]:
        """Return by name what is not left to the default."""
        return {name: number for name, number in asdict(self).items() if number is not None}

    def widened_by(self, other: Tolerance) -> Tolerance:
        """Return what allows as much as either: of each number the laxer one that is given."""
        ours, theirs = self.set_fields, other.set_fields
        return Tolerance(
            **{
                name: (min if name.startswith("min_") else max)(
                    values[name] for values in (ours, theirs) if name in values
                )
                for name in {**ours, **theirs}
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """What of the inputs may vary from call to call of one built model.

    `axis` is an axis of shapes that only the inputs depend on, such as `length`, within its bound;
    the model takes multiples of `multiple_of`.
    """

    axis: str
    multiple_of: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One row of the catalog.

    `build` is `package.module`: a module with `build(config) -> torch.nn.Module` and
    `example_inputs(config, *, seed) -> dict[str, Tensor]` (the keyword arguments of `forward`),
    both on the CPU in fp32, and, only where the mean square of the outputs is no sensible training
    loss, `loss(outputs, inputs) -> Tensor`.
    """

    name: str
    family: str
    build: str
    summary: str
    sizes: Mapping[str, SizeSpec]
    phases: tuple[str, ...] = ("inference", "training")
    # By dtype, where the default is too strict or too lax for the model.
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    # Beside those that follow from the family (tags.py).
    tags: tuple[str, ...] = ()
    # Beside the sizes, by their names.
    shapes: Mapping[str, NamedShape] = field(default_factory=dict)
    # None where the model is built for one shape.
    sweep: SweepSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTransform:
    """What a variant does to a model besides compiling it; nothing by default.

    `memory_format` is that of weights and inputs of four dimensions, `contiguous` or
    `channels_last`. Where it `is_regional`, each repeated block is compiled by itself and the rest
    is not; where it `is_checkpointed`, training keeps of each such block its inputs alone and
    computes the rest again in the backward. With a `has_fused_optimizer` a step of AdamW is one
    kernel. `weights` is the format of those of linear layers, `int8` or `float8` where it is not
    the case's dtype. The eager model that the variant is compared with is never transformed.
    """

    memory_format: str = "contiguous"
    is_regional: bool = False
    is_checkpointed: bool = False
    has_fused_optimizer: bool = False
    weights: str = ""


NO_TRANSFORM = ModelTransform()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to execute a model.

    `mode` is the torch.compile mode in its public spelling (`eager` where nothing is compiled) and
    `backend` the torch.compile backend, or the other runtime that executes the model; `dynamic`
    and `fullgraph` are torch.compile's arguments. `phases` are those that it exists in. One that
    `is_swept` is called with other shapes as well.
    """

    name: str
    mode: str
    backend: str
    summary: str
    dynamic: bool | None = None
    fullgraph: bool = False
    transform: ModelTransform = NO_TRANSFORM
    # What the transform costs in accuracy, whatever the model.
    tolerance: Tolerance = Tolerance()
    phases: tuple[str, ...] = ("inference", "training")
    is_swept: bool = False


_MAX_NEAR = 3
# `fp8` may be meant for fp32, which is .57 alike, `fastest` for nothing that is .53.
_NEAR = 0.55


def near_names(name: str, names: Iterable[str]) -> str:
    """Return the names of `known` that `name` may be meant for, as in `a or b`; empty for none."""
    plain = name.lower().strip("*?").replace("-", "_")
    spelled = {item.lower().replace("-", "_"): item for item in names}
    begin_so = [item for item in spelled if plain and item.startswith(plain)]
    close = difflib.get_close_matches(plain, spelled, n=_MAX_NEAR, cutoff=_NEAR)
    near = list(dict.fromkeys((*begin_so, *close)))[:_MAX_NEAR]
    return " or ".join(spelled[item] for item in near)
