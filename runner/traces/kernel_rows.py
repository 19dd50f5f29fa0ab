"""The calls of a trace, counted into the rows of the table of kernels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from compile_hud.db.records.kernels import (
    CALL_LINES,
    IDLE_AFTER_WAIT,
    MODULES,
    VECTOR_ISA,
    Kernel,
    KernelSource,
    ModuleTime,
)
from compile_hud.runner.analysis.kernels.code_similarity import choices_of
from compile_hud.runner.protocol.kernel_notes import KernelNote, KernelNotes
from compile_hud.runner.protocol.operator_costs import Work, share_of_peak, tensors_of, work_of
from compile_hud.runner.traces.kernel_kinds import Class
from compile_hud.runner.traces.kernel_names import label_of
from compile_hud.runner.traces.timeline import Call

NS_PER_S = 1e9
# More than any memory, and more than a year of any device. Larger values in a damaged trace are
# ignored.
_MAX_COPY_BYTES = 2**60
_MAX_FLOPS = 1e27
_BYTES_PER_GB = 1e9
_OWN_NAME = "KERNEL"
_FX_TARGET = re.compile(r"(\w+)\.(\w+)(?:\.\w+)?")
_CONFIG = ("num_warps", "num_stages")
# The deepest models have this number of layers.
MAX_MODULES = 200


@dataclass(slots=True)
class Tally:
    """The counts of one row: the calls of one name with the same inputs.

    `operator` is the call of the operator that computes or launches it. `others` are calls whose
    inputs differ only in properties that shapes omit. With `has_own_work` this kernel alone
    computes the work of the operator.
    """

    name: str
    shapes: str
    kernel_class: Class
    operator: Call | None
    has_own_work: bool
    count: int = 0
    total_ns: int = 0
    min_ns: int = 2**63 - 1
    others: list[Call] = field(default_factory=list)
    launches: list[Mapping[str, Any]] = field(default_factory=list)
    # Calls and time of each module.
    modules: dict[str, tuple[int, int]] = field(default_factory=dict)
    # The line of the first call in each module, where the trace has stacks.
    lines: dict[str, str] = field(default_factory=dict)
    streams: set[int | str] = field(default_factory=set)
    # The GPU had no work after a copy that the host waited for.
    idle_after_wait_ns: int = 0

    def add(self, duration_ns: int, *, module: str, line: str = "") -> None:
        """Count one call."""
        if line:
            self.lines.setdefault(module, line)
        self.count += 1
        self.total_ns += duration_ns
        self.min_ns = min(self.min_ns, duration_ns)
        count, total_ns = self.modules.get(module, (0, 0))
        self.modules[module] = (count + 1, total_ns + duration_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The common values of all rows of a trace."""

    device: str
    num_iterations: int
    iteration_ns: float
    notes: KernelNotes
    peaks: Mapping[str, float]


def kernels_of(
    tallies: Iterable[Tally], *, facts: Facts
) -> tuple[tuple[Kernel, ...], tuple[KernelSource, ...]]:
    """Return the rows, the longest first, and each different generated code once."""
    sources: dict[str, KernelSource] = {}
    kernels = [_kernel(tally, facts, sources) for tally in tallies]
    kernels.sort(key=lambda kernel: (-kernel.total_s, kernel.name, kernel.shapes))
    return tuple(kernels), tuple(sources.values())


def source_of(note: KernelNote, *, name: str) -> KernelSource:
    """Return the code of the kernel `name`, hashed without that name."""
    text = re.sub(rf"\b{re.escape(name)}\b", _OWN_NAME, note.source)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return KernelSource(hash=digest, language=note.language, text=note.source)


def common_path(modules: Iterable[str]) -> str:
    """Return the longest common path of these modules, empty for the model itself."""
    paths = [module.split(".") for module in modules]
    if not paths:
        return ""
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)


def _kernel(tally: Tally, facts: Facts, sources: dict[str, KernelSource]) -> Kernel:
    note = facts.notes.kernels.get(tally.name)
    source_hash = ""
    if note is not None and note.source:
        source = source_of(note, name=tally.name)
        source_hash = source.hash
        sources.setdefault(source_hash, source)
    work = _work(tally, note)
    mean_s = tally.total_ns / tally.count / NS_PER_S
    total_s = tally.total_ns / facts.num_iterations / NS_PER_S
    return Kernel(
        name=tally.name,
        label=label_of(tally.name),
        kind=tally.kernel_class.kind,
        library=tally.kernel_class.library,
        device=facts.device,
        count=tally.count / facts.num_iterations,
        total_s=total_s,
        mean_s=mean_s,
        min_s=tally.min_ns / NS_PER_S,
        share=total_s * NS_PER_S / facts.iteration_ns,
        num_bytes=work.num_bytes,
        flops=work.flops,
        roofline=share_of_peak(work, mean_s=mean_s, peaks=facts.peaks),
        operators=_operators(tally, note),
        module=_module(tally, note),
        shapes=tally.shapes,
        source_hash=source_hash,
        config=_config(tally, note),
        launch=_launch(tally, note)
        | _by_module(tally, facts)
        | _lines(tally, facts)
        | _idle_after_wait(tally, facts),
        origins=note.origins if note else (),
    )


def _work(tally: Tally, note: KernelNote | None) -> Work:
    if note is not None and note.num_bytes is not None:
        return Work(num_bytes=note.num_bytes, flops=note.flops, dtype=note.dtype)
    copied = _agreed(tally.launches).get("bytes")
    if type(copied) is int and 0 <= copied < _MAX_COPY_BYTES:
        return _copy_work(tally.name, copied)
    if tally.operator is None or not tally.has_own_work:
        return Work()
    works = {work_of_call(call) for call in (tally.operator, *tally.others)}
    # Inputs of one shape may have different memory layouts: then no number is valid for all.
    return works.pop() if len(works) == 1 else Work()


def work_of_call(call: Call) -> Work:
    """Return the work of one call of an operator."""
    recorded = _recorded_work(call.facts)
    if recorded is not None:
        return recorded
    tensors = tensors_of(call.dims, call.types, call.strides)
    return work_of(call.name, tensors=tensors, values=call.values)


def _recorded_work(facts: Mapping[str, Any]) -> Work | None:
    """Return the costs of a Triton kernel by Inductor, which are in a trace of a benchmark run."""
    gigabytes = _amount(facts.get("kernel_num_gb"), most=_MAX_COPY_BYTES / _BYTES_PER_GB)
    flops = _amount(facts.get("kernel_flop"), most=_MAX_FLOPS)
    if gigabytes is None and flops is None:
        return None
    return Work(num_bytes=None if gigabytes is None else gigabytes * _BYTES_PER_GB, flops=flops)


def _amount(value: Any, *, most: float) -> float | None:
    """Return a recorded amount; 0 means that it was not counted."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value <= most else None


def _copy_work(name: str, num_bytes: int) -> Work:
    """Return the bytes of the driver's copy or fill; a copy within the device counts twice."""
    if "DtoD" in name:
        return Work(num_bytes=2.0 * num_bytes)
    # The bus limits a transfer to the host, and no peak of the device describes it.
    return Work(num_bytes=float(num_bytes), is_on_device=name.startswith("Memset"))


def _operators(tally: Tally, note: KernelNote | None) -> tuple[str, ...]:
    targets = [origin.target for origin in (note.origins if note else ())]
    named = dict.fromkeys(_operator_of(target) for target in targets if target)
    if named:
        return tuple(named)
    is_operator = tally.operator is not None and "::" in tally.operator.name
    return (tally.operator.name,) if tally.operator is not None and is_operator else ()


def _operator_of(target: str) -> str:
    """Return the trace's name of an operator; an FX graph has aten.addmm.default."""
    match = _FX_TARGET.fullmatch(target)
    return "::".join(match.groups()) if match else target


def _module(tally: Tally, note: KernelNote | None) -> str:
    if any(tally.modules):
        return common_path(tally.modules)
    known = [origin.module for origin in (note.origins if note else ()) if origin.module]
    return common_path(known)


def _config(tally: Tally, note: KernelNote | None) -> dict[str, Any]:
    if note is not None and note.language == "cpp":
        # The events of a trace lack the configuration, but the code has it.
        return {name: _value(text) for name, text in choices_of(note.source).items()}
    facts = {} if tally.operator is None else tally.operator.facts
    config = {name: facts[name] for name in _CONFIG if name in facts}
    return config | _keywords(facts.get("kernel_kwargs"))


def _keywords(text: Any) -> dict[str, Any]:
    """Return the block sizes of "XBLOCK=2,R0_BLOCK=2048" as numbers."""
    if not isinstance(text, str):
        return {}
    pairs = [part.split("=", 1) for part in text.split(",") if "=" in part]
    return {name.strip(): _value(value.strip()) for name, value in pairs}


def _value(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _launch(tally: Tally, note: KernelNote | None) -> dict[str, Any]:
    launch = _agreed(tally.launches)
    if note is not None and note.arguments:
        launch["arguments"] = list(note.arguments)
    if note is not None and note.spills is not None:
        launch["spills"] = round(note.spills)
    if note is not None and note.vector_isa is not None:
        launch[VECTOR_ISA] = note.vector_isa
    if tally.streams:
        launch["streams"] = sorted(tally.streams, key=str)
    if tally.operator is not None and "kernel_hash" in tally.operator.facts:
        launch["kernel_hash"] = tally.operator.facts["kernel_hash"]
    return launch


def _by_module(tally: Tally, facts: Facts) -> dict[str, Any]:
    """Return the calls and seconds of an iteration in each module, where there are several."""
    if len(tally.modules) <= 1:
        return {}
    longest = sorted(tally.modules.items(), key=lambda item: (-item[1][1], item[0]))
    modules = [
        ModuleTime(
            path=path,
            count=count / facts.num_iterations,
            total_s=total_ns / facts.num_iterations / NS_PER_S,
        )
        for path, (count, total_ns) in longest[:MAX_MODULES]
    ]
    return {MODULES: [module.to_json() for module in modules]}


def _lines(tally: Tally, facts: Facts) -> dict[str, Any]:
    """Return the user's line of the calls in each module, where it was recorded."""
    known = {**tally.lines, **facts.notes.call_lines}
    lines = {path: known[path] for path in sorted(tally.modules) if path in known}
    lines = dict(islice(lines.items(), MAX_MODULES))
    return {CALL_LINES: lines} if lines else {}


def _idle_after_wait(tally: Tally, facts: Facts) -> dict[str, Any]:
    if not tally.idle_after_wait_ns:
        return {}
    return {IDLE_AFTER_WAIT: tally.idle_after_wait_ns / facts.num_iterations / NS_PER_S}


def _agreed(several: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that all launches have in common."""
    if not several:
        return {}
    first, *others = several
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }
