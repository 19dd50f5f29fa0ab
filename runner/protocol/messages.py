"""The requests of an executor to a worker and the reports of the worker, as JSON files.

The worker may run under another interpreter and another torch than the runner, so both directions
carry a schema version and only standard-library types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from compile_hud.db.records.codec import JSON_NAME, JsonRecord, decode, encode
from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.models_zoo.catalog.spec import (
    NO_SETTINGS,
    NO_TRANSFORM,
    CompileSettings,
    ModelTransform,
)
from compile_hud.runner.protocol.transplants import KernelTransplant

# torch.cuda.is_available() then asks NVML. It would start CUDA, which no fork could use afterwards.
ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
# 1: first version.
PROTOCOL_VERSION = 1
# The compile cache of a launch is empty, filled by the first launch, or loaded with
# torch.compiler.load_cache_artifacts from the artifacts that the first launch saved.
CacheState = Literal["cold", "warm", "artifacts"]
# A launch writes the name of its running step to a file next to its report, with this suffix.
STEP_SUFFIX = ".step"
# The first launch that waits for its turn writes the name of its program there (see `program`).
PROGRAM_SUFFIX = ".program"
# Messages of torch and the C++ library for a failed allocation, in lower case.
OUT_OF_MEMORY_TEXTS = ("can't allocate memory", "out of memory", "std::bad_alloc")


class TracePolicy(StrEnum):
    """The cases whose structured log of compilations is stored."""

    NEVER = "never"
    FAILED = "failed"
    # The failed ones, and those whose generated code differs from the last run's.
    CHANGED = "changed"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """The settings of a case's measurement.

    `num_launches` is the least number of fresh processes of a case. The first launch of a compiled
    case has an empty compile cache, the later ones a filled one. A case whose launches disagree
    gets more, up to `max_launches`. They end once half of the 95 % interval of its headline is
    within `target_interval` of its value; 0 disables this. `budget_s` bounds the sampling of one
    launch in wall seconds, `num_rounds` its number of samples. With `kernels` the first launch ends
    with a few iterations under the profiler. With `sweep` it runs the other shapes of the workload
    through the compiled model. With `energy` it reads the device's counters over a second of
    iterations. With `loaded` it lists the folders of the packages that it has loaded.

    `turn_pipe` is a named pipe. A launch opens it after it has compiled, and reads it to its end
    before it warms up: the writer lets several launches compile at a time and one sample. It
    reads a `Turn`, or nothing.
    `device_lock` is a file. Such a launch locks it for its oracle, which takes most memory, and for
    each benchmark of the autotuner. Empty paths mean no waiting.
    """

    num_launches: int = 3
    max_launches: int = 6
    # 2 %: two results this precise show a change of the 5 % that are worth an alert.
    target_interval: float = 0.02
    num_rounds: int = 40
    budget_s: float = 4.0
    num_threads: int = 1
    timeout_s: float = 900.0
    memory_limit_bytes: int | None = None
    memory_snapshot: bool = False
    compile_trace: str = "never"
    kernels: bool = True
    sweep: bool = True
    energy: bool = True
    loaded: bool = False
    turn_pipe: str = ""
    device_lock: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A commit of a repository, checked out into a folder of its own; both are resolved paths."""

    folder: str
    repository: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSweep:
    """The values of one axis of the inputs that go through one compiled model, in this order."""

    axis: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(JsonRecord):
    """The model's file and one size of it, for the worker to build.

    `tolerance` has the catalog's limits for the model and the case's dtype, by name. With a
    `checkout` the code is from that commit. `sweep` is None without other shapes. `summary` is the
    catalog's description of the model. `transplants` replace generated kernels. In JSON,
    `transform` is `treatment`.
    """

    transform: ModelTransform = field(default=NO_TRANSFORM, metadata={JSON_NAME: "treatment"})
    build: str
    config: Mapping[str, Any]
    num_samples: int
    num_tokens: int | None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    dynamic: bool | None = None
    fullgraph: bool = False
    compile: CompileSettings = NO_SETTINGS
    checkout: Checkout | None = None
    sweep: ShapeSweep | None = None
    summary: str = ""
    transplants: tuple[KernelTransplant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One fresh process: its case, its launch number and its output paths.

    The first launch saves its cache artifacts at `artifacts_path` for a later launch.
    `snapshot_path` is for the allocator history, `trace_path` for the trace of the kernels (its
    notes are next to it, see `notes_path`). `oracle_dir` shares the eager oracle among the cases of
    a run. An empty path disables its output. With `is_watched` another profiler is active.
    Iterations then have their ranges but no trace of ours: two profilers cannot share one GPU.
    With a `compile_trace_dir` the launch writes its structured log of compilations there, and ends
    after them. `known_code` maps each program of the run (see `program`) to the variant that was
    measured.
    """

    case: Case
    workload: Workload
    settings: MeasureSettings
    launch: int
    cache_dir: str
    report_path: str
    log_path: str
    cache_state: CacheState = "cold"
    artifacts_path: str = ""
    snapshot_path: str = ""
    trace_path: str = ""
    oracle_dir: str = ""
    is_watched: bool = False
    compile_trace_dir: str = ""
    known_code: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        return {"protocol_version": PROTOCOL_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchRequest:
        """Return the request that `document` describes; raise ValueError on another version."""
        check_protocol_version(document)
        return decode(cls, document)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMetric:
    """The samples one launch took of one metric, in the metric's unit, and how."""

    samples: tuple[float, ...]
    method: str
    warmups: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReport:
    """The report of one launch; it has metrics only if the outcome is ok."""

    outcome: Outcome
    reason: str = ""
    effective_mode: str = ""
    metrics: Mapping[str, RawMetric] = field(default_factory=dict)
    warnings: tuple[RunWarning, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {"protocol_version": PROTOCOL_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchReport:
        """Return the report that `document` describes; raise ValueError on another version."""
        check_protocol_version(document)
        return decode(cls, document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(JsonRecord):
    """The answer to a launch that waits: it may sample now.

    It ends at once if the variant `same_code_as` of this run has the same program. `num_neighbours`
    launches wait with their model on the device.
    """

    same_code_as: str = ""
    num_neighbours: int = 0


# The launch of the code of a mode; a mode with CUDA graphs replays it.
_LAUNCHES = {
    "default": "calls",
    "max-autotune-no-cudagraphs": "calls",
    "reduce-overhead": "replays",
    "max-autotune": "replays",
}


def program(sha256: str, *, effective_mode: str) -> str:
    """Return the name of a program: the hash of its code, and how it is launched.

    CUDA graphs replay the same code in another way, so equal code alone is not the same program.
    Modes that differ in autotuning alone launch equal code alike.
    """
    launch = _LAUNCHES.get(effective_mode, effective_mode)
    return f"{launch}:{sha256}"


def notes_path(trace: Path) -> Path:
    """Return the path of the kernel notes that belong to the file `trace`."""
    return trace.with_name(f"{trace.name.partition('.')[0]}.notes.json")


def check_protocol_version(document: Mapping[str, Any]) -> None:
    """Raise ValueError unless `document` has this version of the protocol."""
    version = document.get("protocol_version")
    if version != PROTOCOL_VERSION:
        raise ValueError(
            f"the worker protocol is version {version!r}, this code speaks {PROTOCOL_VERSION};"
            " runner and toolchain must use the same Compile HUD checkout"
        )
