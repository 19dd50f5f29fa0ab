"""compile-memory: compiling needs more memory than running.

A machine can then run the model and still fail to compile it. The levels are those of the cold
compile: of the GPU's allocator, or of the process and its compilers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import gib_text, metric_exhibit
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

# Buffers of autotuning and the workspaces of libraries are below it on any machine.
MIN_BYTES = 1 << 30
# Below it, the memory of the iterations limits what fits, and not that of the compiler.
MIN_FACTOR = 1.25


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the memory that compiling needs beyond an iteration."""
    launches = case.detail("compile")
    cold = next((item for item in launches if item.get("state") == "cold"), {})
    memory = cold.get("memory_bytes")
    running = case.median("peak_bytes")
    if not isinstance(memory, Mapping) or running is None:
        return
    name, compiling = _level(case, memory)
    if compiling is None or compiling < MIN_FACTOR * running or compiling - running < MIN_BYTES:
        return
    yield Draft(
        text=f"compiling takes {gib_text(compiling)} {name}, an iteration {gib_text(running)}",
        evidence=(
            metric_exhibit("peak_bytes", running, unit="B"),
            *(
                metric_exhibit(metric, value, unit="B")
                for metric in (
                    "compile_peak_host_bytes",
                    "compile_peak_compilers_bytes",
                    "compile_peak_device_bytes",
                )
                if (value := case.median(metric)) is not None
            ),
        ),
    )


def _level(case: ResultEvidence, memory: Mapping[str, float]) -> tuple[str, float | None]:
    """Return the memory while compiling: the whole of a GPU's, on a CPU that beyond the model."""
    if case.is_cuda:
        return "on the GPU", memory.get("device peak")
    host = case.median("compile_peak_host_bytes")
    compilers = case.median("compile_peak_compilers_bytes")
    return "beyond the model", None if host is None else host + (compilers or 0.0)


KIND = FindingKind(
    code="compile-memory",
    meaning="Compiling needs more memory than an iteration: what runs may fail to compile.",
    remedy="autotune less (mode default), compile the repeated blocks alone, or start fewer"
    " compilers: TORCHINDUCTOR_COMPILE_THREADS",
    source="memory of the cold compile",
    rule=find,
    min_share=None,
)
