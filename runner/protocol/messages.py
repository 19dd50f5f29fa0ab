"""The requests of an executor to a worker and the reports of the worker, as JSON files.

The worker may run under another interpreter and another torch than the runner, so both directions
carry a schema version and only standard-library types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.models_zoo.catalog.spec import NO_TRANSFORM, ModelTransform

# Has torch.cuda.is_available() ask NVML instead of CUDA, which no fork could use any more.
ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
# 1: first version.
PROTOCOL_VERSION = 1
# What a launch finds in its compile cache: nothing, what the first launch left there, or what
# torch.compiler.load_cache_artifacts brings from the artifacts that the first launch saved.
CacheState = Literal["cold", "warm", "artifacts"]
# What torch and the C++ library say when an allocation fails, in lower case.
OUT_OF_MEMORY_TEXTS = ("can't allocate memory", "out of memory", "std::bad_alloc")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """How a case is measured.

    `num_launches` is the least number of fresh processes a case gets; the first one of a compiled
    case has an empty compile cache, the later ones find it filled. A case whose launches disagree
    gets more, up to `max_launches`, until half of the 95 % interval of its headline is within
    `target_interval`, relative to its value; 0 stops nothing and adds nothing. `budget_s` bounds
    the sampling of one launch in wall seconds, `num_rounds` the samples it takes. With `kernels`
    the first launch ends with a few iterations under the profiler, and with `sweep` with other
    shapes through the compiled model, where the workload names any. With `energy` it reads the
    device's counters over a second of iterations.

    `turn_pipe` is a named pipe that a launch opens once it has compiled, and reads to its end
    before it warms up: the writer lets several launches compile at a time and one sample.
    `device_lock` is a file that such a launch locks while it computes its oracle, which takes most
    memory, and around each benchmark of the autotuner. Both are empty for no waiting.
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
    kernels: bool = True
    sweep: bool = True
    energy: bool = True
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
class Workload:
    """What the worker must build: the model's file and one size of it.

    `tolerance` holds what the catalog gives for the model and the case's dtype, by name. With a
    `checkout` the code is that commit's. `sweep` is None where no other shapes are measured.
    `summary` is what the catalog says that the model stresses.
    """

    build: str
    config: Mapping[str, Any]
    num_samples: int
    num_tokens: int | None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    dynamic: bool | None = None
    fullgraph: bool = False
    transform: ModelTransform = NO_TRANSFORM
    checkout: Checkout | None = None
    sweep: ShapeSweep | None = None
    summary: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the workload as a JSON object; the wire name of `transform` is `treatment`."""
        document = dataclasses.asdict(self)
        return {"treatment": document.pop("transform"), **document}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Workload:
        """Return the workload that `document` describes."""
        fields = dict(document)
        transform = ModelTransform(**fields.pop("treatment"))
        checkout, sweep = document.get("checkout"), document.get("sweep")
        return cls(
            **{
                **fields,
                "transform": transform,
                "checkout": None if checkout is None else Checkout(**checkout),
                "sweep": sweep and ShapeSweep(axis=sweep["axis"], values=tuple(sweep["values"])),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One fresh process: which case, which launch of it, and where things go.

    `artifacts_path` is where the first launch saves the cache artifacts that a later one may load;
    empty for nowhere.
    `snapshot_path` is where the history of the allocator goes; empty when nobody asked for it.
    `trace_path` is where the trace of the kernels goes (its notes beside it, see `notes_path`);
    empty for none.
    `oracle_dir` is where cases of one run leave their eager oracle for the next; empty for nowhere.
    Where a launch `is_watched` by another profiler, its iterations get their ranges without ours:
    two profilers cannot have one GPU.
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

    def to_json(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        return {
            "protocol_version": PROTOCOL_VERSION,
            "case": self.case.to_json(),
            "workload": self.workload.to_json(),
            "settings": dataclasses.asdict(self.settings),
            "launch": self.launch,
            "cache_dir": self.cache_dir,
            "report_path": self.report_path,
            "log_path": self.log_path,
            "cache_state": self.cache_state,
            "artifacts_path": self.artifacts_path,
            "snapshot_path": self.snapshot_path,
            "trace_path": self.trace_path,
            "oracle_dir": self.oracle_dir,
            "is_watched": self.is_watched,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchRequest:
        """Return the request that `document` describes; raise ValueError on another version."""
        check_protocol_version(document)
        return cls(
            case=Case.from_json(document["case"]),
            workload=Workload.from_json(document["workload"]),
            settings=MeasureSettings(**document["settings"]),
            launch=document["launch"],
            cache_dir=document["cache_dir"],
            report_path=document["report_path"],
            log_path=document["log_path"],
            cache_state=document["cache_state"],
            artifacts_path=document["artifacts_path"],
            snapshot_path=document["snapshot_path"],
            trace_path=document["trace_path"],
            oracle_dir=document["oracle_dir"],
            is_watched=document["is_watched"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMetric:
    """The samples one launch took of one metric, in the metric's unit, and how."""

    samples: tuple[float, ...]
    method: str
    warmups: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReport:
    """What one launch found; metrics only when the outcome is ok."""

    outcome: Outcome
    reason: str = ""
    effective_mode: str = ""
    metrics: Mapping[str, RawMetric] = field(default_factory=dict)
    warnings: tuple[RunWarning, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "protocol_version": PROTOCOL_VERSION,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "effective_mode": self.effective_mode,
            "metrics": {name: dataclasses.asdict(raw) for name, raw in self.metrics.items()},
            "warnings": [warning.to_json() for warning in self.warnings],
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchReport:
        """Return the report that `document` describes; raise ValueError on another version."""
        check_protocol_version(document)
        return cls(
            outcome=Outcome(document["outcome"]),
            reason=document["reason"],
            effective_mode=document["effective_mode"],
            metrics={
                name: RawMetric(
                    samples=tuple(raw["samples"]),
                    method=raw["method"],
                    warmups=tuple(raw["warmups"]),
                )
                for name, raw in document["metrics"].items()
            },
            warnings=tuple(RunWarning.from_json(item) for item in document["warnings"]),
            details=document["details"],
        )


def notes_path(trace: Path) -> Path:
    """Return where the notes on the kernels in the file `trace` are."""
    return trace.with_name(f"{trace.name.partition('.')[0]}.notes.json")


def check_protocol_version(document: Mapping[str, Any]) -> None:
    """Raise ValueError unless `document` speaks this version of the protocol."""
    version = document.get("protocol_version")
    if version != PROTOCOL_VERSION:
        raise ValueError(
            f"the worker protocol is version {version!r}, this code speaks {PROTOCOL_VERSION};"
            " runner and toolchain must use the same Compile HUD checkout"
        )
