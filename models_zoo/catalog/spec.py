"""The records of the catalog. Nothing here needs torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

ConfigValue = int | float | str | bool | tuple[int, ...]
# The build string of every model of the zoo begins with this.
ZOO_PREFIX = "compile_hud.models_zoo."


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSpec:
    """One size of a model: its configuration and the inputs of its default shape.

    `config` goes unchanged to the model file's `build()` and `example_inputs()`. `num_samples` is
    the batch; `num_tokens` counts the tokens of one iteration (batch x length), None for other
    inputs.
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
    """The largest deviation from the fp64 oracle; a result beyond it is `inaccurate`.

    None is the default of the dtype (runner/measure/accuracy/metrics.py).

    - `min_cosine`, `min_gradient_cosine`: the smallest cosine similarity of an output and of the
      gradients,
    - `rounding_rmse`: the RMS error relative to the oracle's size that is always allowed,
    - `max_rmse_ratio`: the largest multiple of eager's RMS error,
    - `max_discrete_share`: the share of integers that may differ.
    """

    min_cosine: float | None = None
    min_gradient_cosine: float | None = None
    rounding_rmse: float | None = None
    max_rmse_ratio: float | None = None
    max_discrete_share: float | None = None

    @property
    def set_fields(self) -> dict[str, float]:
        """Return by name the fields that differ from the default."""
        return {name: number for name, number in asdict(self).items() if number is not None}

    def widened_by(self, other: Tolerance) -> Tolerance:
        """Return the tolerance with the laxer number of both for each field."""
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
    """The axis of the inputs that may vary from call to call of one built model.

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
    both on the CPU in fp32. It also has `loss(outputs, inputs) -> Tensor` if the mean square of the
    outputs is no sensible training loss. With `keep_source` each run keeps the text of its files.
    """

    name: str
    family: str
    build: str
    summary: str
    sizes: Mapping[str, SizeSpec]
    phases: tuple[str, ...] = ("inference", "training")
    # By dtype, if the default is too strict or too lax for the model.
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    # These add to the tags that follow from the family (tags.py).
    tags: tuple[str, ...] = ()
    # These add to the sizes, by their names.
    shapes: Mapping[str, NamedShape] = field(default_factory=dict)
    # None for a model that is built for one shape.
    sweep: SweepSpec | None = None
    keep_source: bool = False
    # The reason, with its upstream issue, why compiled attention differs from eager's, if it does.
    attention_note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTransform:
    """The changes that a variant makes to a model besides compiling it; none by default.

    `memory_format` is that of weights and inputs of four dimensions, `contiguous` or
    `channels_last`. With `is_regional` each repeated block is compiled by itself, and the rest is
    not compiled. With `is_checkpointed` training stores only the inputs of each such block and
    recomputes the rest in the backward. With `has_fused_optimizer` a step of AdamW is one kernel.
    `weights` is the format of those of linear layers, `int8` or `float8`, "" for the case's dtype.
    The eager model that the variant is compared with is never transformed.
    """

    memory_format: str = "contiguous"
    is_regional: bool = False
    is_checkpointed: bool = False
    has_fused_optimizer: bool = False
    weights: str = ""
    # Repeated blocks are compiled once, as nested regions of one graph.
    has_nested_regions: bool = False


NO_TRANSFORM = ModelTransform()
# The backend of a variant that executes a transformed model in eager mode.
NO_BACKEND = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileSettings:
    """The settings of torch that a variant changes; none by default.

    `options` go to the backend of torch.compile, `inductor` to Inductor's config. `environment` is
    set before torch is imported, for eager too. `mark_dynamic` has the dynamic dimensions by name
    of an input. `sdpa` is the attention of compiled code: `math`, `flash`, `efficient` or `cudnn`.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    inductor: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    mark_dynamic: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sdpa: str = ""

    @property
    def flat(self) -> dict[str, Any]:
        """Return the changed settings by dotted name, such as `inductor.freezing`."""
        tables = {
            "options": self.options,
            "inductor": self.inductor,
            "env": self.environment,
            "mark_dynamic": {name: list(value) for name, value in self.mark_dynamic.items()},
        }
        flat = {
            f"{name}.{key}": value for name, table in tables.items() for key, value in table.items()
        }
        return {**flat, "sdpa": self.sdpa} if self.sdpa else flat

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> CompileSettings:
        """Return the settings of which `flat` has the dotted names."""
        tables: dict[str, dict[str, Any]] = {}
        for name, value in flat.items():
            table, _, key = name.partition(".")
            tables.setdefault(table, {})[key] = value
        marks = tables.get("mark_dynamic", {})
        return cls(
            options=tables.get("options", {}),
            inductor=tables.get("inductor", {}),
            environment=tables.get("env", {}),
            mark_dynamic={name: tuple(value) for name, value in marks.items()},
            sdpa=str(flat.get("sdpa", "")),
        )


NO_SETTINGS = CompileSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to execute a model.

    `mode` is the torch.compile mode in its public spelling (`eager` without compilation). `backend`
    is the torch.compile backend, or the other runtime that executes the model. `dynamic` and
    `fullgraph` are torch.compile's arguments. `phases` are those that the variant supports. With
    `is_swept` it is called with other shapes as well.
    """

    name: str
    mode: str
    backend: str
    summary: str
    dynamic: bool | None = None
    fullgraph: bool = False
    transform: ModelTransform = NO_TRANSFORM
    compile: CompileSettings = NO_SETTINGS
    # The accuracy that the transform costs in any model.
    tolerance: Tolerance = Tolerance()
    phases: tuple[str, ...] = ("inference", "training")
    is_swept: bool = False


_MAX_NEAR = 3
# `fp8` may be meant for fp32 (similarity 0.57), `fastest` for nothing (0.53).
_NEAR = 0.55


def near_names(name: str, names: Iterable[str]) -> str:
    """Return the `names` that `name` may be meant for, as in `a or b`; "" for none."""
    plain = name.lower().strip("*?").replace("-", "_")
    spelled = {item.lower().replace("-", "_"): item for item in names}
    begin_so = [item for item in spelled if plain and item.startswith(plain)]
    close = difflib.get_close_matches(plain, spelled, n=_MAX_NEAR, cutoff=_NEAR)
    near = list(dict.fromkeys((*begin_so, *close)))[:_MAX_NEAR]
    return " or ".join(spelled[item] for item in near)
