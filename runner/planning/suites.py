"""Suites: their settings, and the suites that come with Compile HUD."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compile_hud.db.records.results import CUSTOM_SUITE
from compile_hud.models_zoo.catalog.variants import MODES
from compile_hud.runner.protocol.messages import MeasureSettings

# The size that suits the device: a CPU measures `small` in minutes, which hardly loads a GPU.
AUTO_SHAPE = "auto"
# The shapes that hud.toml lists for every night.
NIGHTLY_SHAPES = "nightly"
# Fields of MeasureSettings that a suite may set for itself.
_OWN_SETTINGS = (
    "num_launches",
    "max_launches",
    "target_interval",
    "num_rounds",
    "budget_s",
    "sweep",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of cases: globs of model, variant and shape names, and the other axes of a case.

    `also` has further selections, whose cases follow.
    """

    models: tuple[str, ...] = ("*",)
    # Globs of tags: a model needs one matching tag. Without globs every model matches.
    tags: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    modes: tuple[str, ...] = MODES
    phases: tuple[str, ...] = ("inference",)
    dtypes: tuple[str, ...] = ("fp32",)
    shapes: tuple[str, ...] = (AUTO_SHAPE,)
    also: tuple[Selection, ...] = ()

    @property
    def all(self) -> tuple[Selection, ...]:
        """This selection and those that follow it."""
        return (self, *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A named selection of cases; a setting of None has its value from `[run]` in hud.toml.

    A run starts cases for `time_budget_s` seconds; None means no limit.
    """

    name: str
    summary: str
    selection: Selection
    time_budget_s: float | None = None
    num_launches: int | None = None
    max_launches: int | None = None
    target_interval: float | None = None
    num_rounds: int | None = None
    budget_s: float | None = None
    sweep: bool | None = None

    def settings(self, measure: MeasureSettings) -> MeasureSettings:
        """Return `measure` with the settings of this suite instead of its own."""
        own = {name: getattr(self, name) for name in _OWN_SETTINGS}
        return replace(measure, **{name: value for name, value in own.items() if value is not None})


QUICK = Suite(
    name="quick",
    summary="First numbers in minutes on any machine: six small models, one of them in training.",
    selection=Selection(
        models=("bert", "gpt2", "vit", "resnet", "nn_transformer"),
        shapes=("small",),
        # Two modes tell what compiling gives, and leave the time to measure them.
        also=(
            Selection(models=("dcgan",), modes=("eager", "default"), shapes=("small",)),
            Selection(
                models=("nn_transformer",),
                phases=("training",),
                modes=("eager", "default"),
                shapes=("small",),
            ),
        ),
    ),
    # Two launches are the fewest that have both a cold and a warm compilation. A third one follows
    # where they disagree, so that a change of 5 % shows between two runs of this suite.
    num_launches=2,
    max_launches=3,
    num_rounds=30,
    budget_s=1.0,
    # One more compilation a case would exceed the few minutes of this suite.
    sweep=False,
)

TINY = Suite(
    name="tiny",
    summary="Every model at its smallest, eager and default: does it work at all? For CI.",
    selection=Selection(modes=("eager", "default"), shapes=("tiny",)),
    num_launches=2,
    max_launches=2,
    num_rounds=10,
    budget_s=0.5,
    sweep=False,
)

NIGHTLY = Suite(
    name="nightly",
    summary="Each model under each mode, inference and training, fp32 and bf16.",
    selection=Selection(
        modes=(*MODES, "dynamic", "fullgraph", "aot_eager"),
        phases=("inference", "training"),
        dtypes=("fp32", "bf16"),
        shapes=(AUTO_SHAPE, NIGHTLY_SHAPES),
    ),
)

BUILTIN_SUITES: dict[str, Suite] = {suite.name: suite for suite in (QUICK, TINY, NIGHTLY)}


def custom_suite(selection: Selection) -> Suite:
    """Return an unnamed suite for a selection."""
    return Suite(name=CUSTOM_SUITE, summary="Selected by hand.", selection=selection)
