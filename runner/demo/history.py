"""Synthetic nights: labelled as such, identical for a seed.

By the share of nights, the plan has a lasting step, a fixed step, an improvement, and a slow drift.
It has a noisy series without a change, a case that starts to fail, and one that vanishes. It also
has a new driver, and slower memory, which is a machine drift: a reference case and a memory-bound
model show it. Training has a step as well, and so has fp32. A second machine measures some of the
models, and shows the lasting step too. Some cases have kernels (runner/demo/kernels.py). A slower
case among them has one slower kernel.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.memory.peak import MEMORY_PEAK
from compile_hud.db.records.metrics import CACHES, COMPILE_CACHES, METRICS, WARM, cache_metric
from compile_hud.db.records.results import (
    Case,
    CaseResult,
    Dtype,
    Measurement,
    Outcome,
    Phase,
    Run,
    RunDocument,
    RunState,
)
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.variants import MODES, VARIANTS
from compile_hud.runner.analysis.release.runs import ReleaseRules
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.studies.study import Study
from compile_hud.runner.demo.kernels import PEAKS, demo_kernels
from compile_hud.runner.demo.memory import demo_memory
from compile_hud.runner.execution.environment import fingerprint, revision
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.planning.suites import Selection

MACHINE = "synthetic-demo"
SUITE = "nightly"
METHOD = "synthetic: drawn from a random generator, nothing was measured"
NUM_LAUNCHES = 3
SAMPLES_PER_LAUNCH = 5
# Standard deviations of the level between nights, between launches and between samples.
NIGHT_SD, LAUNCH_SD, SAMPLE_SD = 0.006, 0.004, 0.004
NOISY_SD = 0.05

# Eager latency in seconds, speedup by mode, cold compile time in seconds, peak memory in bytes.
_MODELS: Mapping[str, tuple[float, tuple[float, float, float, float], float, float]] = {
    "bert": (0.0182, (1.52, 1.61, 1.74, 1.70), 21.0, 1.9e9),
    "gpt2": (0.0241, (1.41, 1.58, 1.69, 1.62), 24.0, 2.6e9),
    "vit": (0.0127, (1.63, 1.79, 1.92, 1.85), 19.0, 1.4e9),
    "resnet": (0.0064, (1.38, 1.86, 1.95, 1.49), 23.0, 1.1e9),
    "moe": (0.0392, (1.22, 1.31, 1.43, 1.37), 38.0, 7.8e9),
    "t5": (0.0318, (1.47, 1.69, 1.78, 1.66), 41.0, 3.3e9),
    "unet": (0.0847, (1.34, 1.39, 1.62, 1.58), 66.0, 9.4e9),
    "nn_transformer": (0.0153, (1.55, 1.83, 2.02, 1.71), 26.0, 2.2e9),
}
_REFERENCE_S = {"ref_gemm": 0.00268, "ref_copy": 0.000325, "ref_chain": 0.00091}
_COMPILED = MODES[1:]
# A night ends before people come; its cases start one after the other.
_RUN_TAKES = timedelta(hours=3)
_CASE_TAKES = timedelta(seconds=100)
# Autotuning compiles every candidate.
_COMPILE_FACTOR = dict(zip(_COMPILED, (1.0, 1.1, 4.2, 4.0), strict=True))
# The compiler costs this much per second of a cold compile; guards grow with its square root.
_INSTRUCTIONS_PER_S, _COMPILER_BYTES, _COMPILER_BYTES_PER_S = 9.4e9, 1.9e9, 1.6e7
_GUARDS_PER_S, _GUARD_S = 21.0, 1.1e-7
# CUDA graphs keep their pool.
_MEMORY_FACTOR = dict(zip(_COMPILED, (0.83, 1.04, 1.02, 0.81), strict=True))

# Each planted change: (model, mode), and the share of the nights from which it applies. All are of
# the first block, but the last two.
STEP = ("vit", "reduce-overhead")
STEP_FROM, STEP_FACTOR = 0.70, 1.08
FIXED = ("bert", "default")
FIXED_FROM, FIXED_UNTIL, FIXED_FACTOR = 0.55, 0.72, 1.12
GAIN = ("resnet", "max-autotune")
GAIN_FROM, GAIN_FACTOR = 0.60, 0.88
DRIFT = ("gpt2", "default")
# A drift of half a year would be a step for every rule.
DRIFT_PER_NIGHT, DRIFT_NIGHTS = 0.01 / 7, 60
NOISY = ("t5", "max-autotune")
FAILING = ("unet", "max-autotune")
FAILING_FROM = 0.93
VANISHED = ("moe", "max-autotune-no-cudagraphs")
VANISHED_FROM = 0.88
DRIVER_FROM, DRIVER_FACTOR = 0.30, 0.985
MEMORY_BOUND = ("ref_copy", "nn_transformer")
MEMORY_FROM, MEMORY_FACTOR = 0.80, 1.09
TRAINING_STEP = ("resnet", "default")
TRAINING_FROM, TRAINING_FACTOR = 0.65, 1.09
FP32_SPIKE = ("bert", "max-autotune")
# A few nights, so that its alert is noise.
FP32_FROM, FP32_NIGHTS, FP32_FACTOR = 0.84, 3, 1.3
# A release: training is slower where matrix products are autotuned, and one other case fails.
RELEASE_SUITE = "release"
RELEASE_TOOLCHAINS = ("stable", "next")
RELEASE_VERSIONS = ("2.13.0+cu130", "2.14.0+cu130")
RELEASE_LAUNCHES = 21
RELEASE_SLOWER_MODES = ("max-autotune", "max-autotune-no-cudagraphs")
RELEASE_FAILING = ("gpt2", "reduce-overhead")
RELEASE_FACTOR = 1.12
# The newest runs have kernels, timeline and trace of every case; more would make the demo slow.
NUM_DETAILED = 2

BREAKING = "moe"
BREAK = {
    "reason": "Data-dependent branching: the router reads a tensor on the host",
    "file": "synthetic_model.py",
    "line": 73,
    "function": "route",
}
FAILURE = "BackendCompilerFailed: triton.runtime.errors.OutOfResources: shared memory"
FAILURE_LOG = """\
AUTOTUNE mm(8192x320, 320x2560)
  triton_mm_17 0.1823 ms 100.0%
  triton_mm_21 0.1894 ms 96.3%
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 262144, Hardware \
limit: 232448. Reducing block sizes or `num_stages` may help.
(synthetic: this log was written by hud demo)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBlock:
    """Cases of one phase and dtype; the factors are those of eager times and of speedups."""

    phase: Phase = Phase.INFERENCE
    dtype: Dtype = Dtype.BF16
    models: tuple[str, ...] = tuple(_MODELS)
    time_factor: float = 1.0
    speedup_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoMachine:
    """A machine whose times are `time_factor` times those of the first one.

    `delay` is the time after half past two at which its run starts. `suffix` is that of the ids of
    its runs.
    """

    name: str
    device_name: str
    time_factor: float = 1.0
    delay: timedelta = timedelta(0)
    suffix: str = ""


BASE = CaseBlock()
BLOCKS = (
    BASE,
    CaseBlock(dtype=Dtype.FP32, models=("bert", "resnet"), time_factor=2.6, speedup_factor=0.92),
    CaseBlock(
        phase=Phase.TRAINING,
        models=("bert", "vit", "resnet", "moe"),
        time_factor=3.1,
        speedup_factor=0.94,
    ),
)
MAIN = DemoMachine(name=MACHINE, device_name="Synthetic GPU 80GB")
SECOND = DemoMachine(
    name="synthetic-workstation",
    device_name="Synthetic GPU 24GB",
    time_factor=2.4,
    # The first machine has the newest run, which pages open with.
    delay=timedelta(hours=-2),
    suffix="w-",
)
SECOND_BLOCKS = (CaseBlock(models=("bert", "gpt2", "resnet", "vit")),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Night:
    number: int
    num_nights: int
    run: Run
    machine: DemoMachine
    num_launches: int = NUM_LAUNCHES
    failing: tuple[str, str] = FAILING
    # The factor on the latency of each case, instead of the planted events of the history.
    factor_of: Callable[[Case], float] | None = None

    @property
    def share(self) -> float:
        return self.number / self.num_nights

    @property
    def is_detailed(self) -> bool:
        return self.number >= self.num_nights - NUM_DETAILED


def synthetic_history(
    *,
    now: Callable[[], datetime],
    nights: int,
    seed: int,
    machine: DemoMachine = MAIN,
    blocks: Sequence[CaseBlock] = (BASE,),
) -> Iterator[RunDocument]:
    """Yield one run of `blocks` a night, oldest first."""
    # Each block has a generator of its own, and so have the reference cases. The numbers of one
    # block do not depend on the others then.
    seeds = seed if machine == MAIN else [seed, len(machine.name)]
    reference_generator = np.random.default_rng(seeds)
    generators = {
        (block.phase, block.dtype): np.random.default_rng(seeds if block == BASE else [seed, index])
        for index, block in enumerate(blocks)
    }
    last = now().replace(hour=2, minute=30, second=0, microsecond=0)
    # All machines have the same last night, whatever the hour.
    if last + _RUN_TAKES > now():
        last -= timedelta(days=1)
    last += machine.delay
    for number in range(nights):
        at = last - timedelta(days=nights - 1 - number)
        run = _run(at, share=number / nights, seed=seed, machine=machine, blocks=blocks)
        night = _Night(number=number, num_nights=nights, run=run, machine=machine)
        yield _document(night, generators=generators, reference_generator=reference_generator)


def study_run(study: Study, *, now: Callable[[], datetime], nights: int, seed: int) -> RunDocument:
    """Return a run of the first block in the suite of `study`, three days before the last night."""
    at = now().replace(hour=14, minute=0, second=0, microsecond=0) - timedelta(days=4)
    number = nights - 4
    run = _run(at, share=number / nights, seed=seed, machine=MAIN, blocks=(BASE,))
    run = replace(run, id=f"demo-{seed}-{study.name}", suite=study.suite)
    return _document(
        _Night(number=number, num_nights=nights, run=run, machine=MAIN),
        generators={(BASE.phase, BASE.dtype): np.random.default_rng([seed, 4])},
        reference_generator=np.random.default_rng([seed, 5]),
    )


def release_runs(
    *, now: Callable[[], datetime], nights: int, seed: int
) -> tuple[RunDocument, RunDocument]:
    """Return both sides of a release, five days before the last night."""
    at = now().replace(hour=15, minute=0, second=0, microsecond=0) - timedelta(days=5)
    baseline, candidate = (
        _release_side(side, at=at, nights=nights, seed=seed) for side in range(2)
    )
    return baseline, candidate


def _release_side(side: int, *, at: datetime, nights: int, seed: int) -> RunDocument:
    run = _run(at, share=1.0, seed=seed, machine=MAIN, blocks=BLOCKS)
    version = RELEASE_VERSIONS[side]
    facts = {
        **run.environment,
        "torch_version": version,
        "torch_git": hashlib.sha1(version.encode(), usedforsecurity=False).hexdigest(),
    }
    run = replace(
        run,
        id=f"demo-{seed}-release-{side}",
        suite=RELEASE_SUITE,
        toolchain=RELEASE_TOOLCHAINS[side],
        started_at=at + timedelta(minutes=side),
        environment=facts,
        revision=revision(facts),
        fingerprint=fingerprint(facts),
        plan=tuple(case for case in run.plan if not case.is_reference),
        trigger=ReleaseRules(
            baseline=RELEASE_TOOLCHAINS[0], candidate=RELEASE_TOOLCHAINS[1]
        ).trigger,
    )
    return _document(
        _Night(
            number=nights - 1,
            num_nights=nights,
            run=run,
            machine=MAIN,
            num_launches=RELEASE_LAUNCHES,
            failing=RELEASE_FAILING if side else ("", ""),
            factor_of=_release_factor if side else lambda _case: 1.0,
        ),
        generators={
            (block.phase, block.dtype): np.random.default_rng([seed, 6 + index, side])
            for index, block in enumerate(BLOCKS)
        },
        reference_generator=np.random.default_rng([seed, 5]),
    )


def _release_factor(case: Case) -> float:
    """Return the factor of the planted regressions of the release on a case's latency."""
    is_slower = case.phase is Phase.TRAINING and case.mode in RELEASE_SLOWER_MODES
    return RELEASE_FACTOR if is_slower else 1.0


def _document(
    night: _Night,
    *,
    generators: Mapping[tuple[Phase, Dtype], np.random.Generator],
    reference_generator: np.random.Generator,
) -> RunDocument:
    results = (
        _result(
            case,
            night=night,
            index=index,
            generator=reference_generator
            if case.is_reference
            else generators[case.phase, case.dtype],
        )
        for index, case in enumerate(night.run.plan)
    )
    return RunDocument(run=night.run, results=tuple(results))


def _run(
    at: datetime, *, share: float, seed: int, machine: DemoMachine, blocks: Sequence[CaseBlock]
) -> Run:
    driver = "580.65.06" if share >= DRIVER_FROM or machine != MAIN else "570.86.15"
    version = f"2.14.0.dev{at:%Y%m%d}+cu130"
    facts: dict[str, Any] = {
        "device_name": machine.device_name,
        "compute_capability": "9.0",
        "driver_version": driver,
        "cuda_version": "13.0",
        "python_minor": "3.12",
        "cpu_model": "Synthetic CPU",
        "cpu_capability": "AVX512",
        "num_cpus": 32,
        "num_threads": 1,
        "flags": {},
        "torch_version": version,
        "torch_git": hashlib.sha1(version.encode(), usedforsecurity=False).hexdigest(),
        "peaks": {name: rate / machine.time_factor for name, rate in PEAKS.items()},
    }
    plan = tuple(_plan(blocks, share=share))
    return Run(
        id=f"demo-{seed}-{machine.suffix}{at:%Y%m%d}",
        started_at=at,
        finished_at=at + _CASE_TAKES * len(plan),
        state=RunState.FINISHED,
        suite=SUITE,
        toolchain="nightly",
        revision=revision(facts),
        machine=machine.name,
        environment=facts,
        fingerprint=fingerprint(facts),
        plan=plan,
        trigger="demo",
        is_synthetic=True,
    )


def _plan(blocks: Sequence[CaseBlock], *, share: float) -> Iterator[Case]:
    references = Selection(models=tuple(REFERENCES))
    for planned in make_plan(references, catalog={}, device="cuda"):
        yield planned.case
    for block in blocks:
        for model in block.models:
            for mode in MODES:
                if (model, mode) == VANISHED and block == BASE and share >= VANISHED_FROM:
                    continue
                yield demo_case(model, mode, phase=block.phase, dtype=block.dtype)


def demo_case(model: str, mode: str, *, phase: Phase, dtype: Dtype) -> Case:
    """Return the case of a model in full size on a GPU."""
    return Case(
        model=model,
        family=CATALOG[model].family,
        phase=phase,
        shape="full",
        dtype=dtype,
        mode=mode,
        variant=mode,
        backend=VARIANTS[mode].backend,
        device="cuda",
    )


def _result(case: Case, *, night: _Night, index: int, generator: np.random.Generator) -> CaseResult:
    started_at = night.run.started_at + timedelta(seconds=100 * index)
    is_failing = _is_base(case, night.failing) and night.share >= FAILING_FROM
    # A failing case draws too, so that later cases do not depend on it.
    measurements = _measurements(case, night=night, generator=generator)
    kernels = demo_kernels(
        case,
        latency_s=measurements[0].median,
        slower=max(1.0, _code_factor(case, night)),
        peaks=night.run.environment["peaks"],
        is_detailed=night.is_detailed and not case.is_reference and not is_failing,
    )
    return CaseResult(
        id=f"{night.run.id}-{index:03d}",
        run_id=night.run.id,
        case=case,
        outcome=Outcome.FAILED if is_failing else Outcome.OK,
        started_at=started_at,
        finished_at=started_at + timedelta(seconds=95),
        reason=FAILURE if is_failing else "",
        effective_mode=case.mode,
        measurements=() if is_failing else measurements,
        log_tail=FAILURE_LOG if is_failing else "",
        kernels=kernels.kernels,
        sources=kernels.sources,
        details=kernels.details
        if case.is_reference
        else {
            **kernels.details,
            **_details(case),
            **_memory(case, () if is_failing else measurements, kernels=kernels.kernels),
        },
    )


def _memory(
    case: Case, measurements: Sequence[Measurement], *, kernels: Sequence[Kernel]
) -> dict[str, Any]:
    """Return the holders of memory of a result with kernels, as those of a real run."""
    peaks = [item.median for item in measurements if item.metric == "peak_bytes"]
    if not peaks or not kernels:
        return {}
    return {MEMORY_PEAK: demo_memory(case, kernels, peak_bytes=peaks[0]).to_json()}


def _details(case: Case) -> dict[str, Any]:
    spec = CATALOG[case.model]
    config = dict(spec.sizes[case.shape].config)
    details: dict[str, Any] = {
        "workload": {"build": spec.build, "config": config, "summary": spec.summary}
    }
    if case.model == BREAKING and not case.is_eager:
        details["graph_breaks"] = [BREAK]
    return details


def _measurements(
    case: Case, *, night: _Night, generator: np.random.Generator
) -> tuple[Measurement, ...]:
    factor = _machine_factor(case, night)
    draw = functools.partial(_samples, generator, num_launches=night.num_launches)
    if case.is_reference:
        times_s = _REFERENCE_S[case.model] * factor * draw(NIGHT_SD / 2)
        return (_measurement("latency_s", times_s),)
    eager_s, speedups, compile_s, peak_bytes = _MODELS[case.model]
    block = next(item for item in BLOCKS if (item.phase, item.dtype) == (case.phase, case.dtype))
    eager_s, peak_bytes = block.time_factor * eager_s, math.sqrt(block.time_factor) * peak_bytes
    eager = eager_s * factor * draw(NIGHT_SD / 2)
    if case.mode == "eager":
        return (_measurement("latency_s", eager), _measurement("peak_bytes", [peak_bytes]))
    mode_index = _COMPILED.index(case.mode)
    sd = NOISY_SD if _is_base(case, NOISY) else NIGHT_SD
    speedup = block.speedup_factor * speedups[mode_index]
    ratio = _code_factor(case, night) / speedup * draw(sd)
    cold = compile_s * _COMPILE_FACTOR[case.mode] * math.exp(0.03 * generator.standard_normal())
    warm = cold * 0.22 * np.exp(0.03 * generator.standard_normal(NUM_LAUNCHES - 1))
    graph_breaks = 1.0 if case.model == BREAKING else 0.0
    cold_s = compile_s * _COMPILE_FACTOR[case.mode]
    return (
        _measurement("latency_s", eager * ratio),
        _measurement("eager_latency_s", eager),
        _measurement("speedup", 1 / ratio),
        _measurement("compile_cold_s", [cold]),
        _measurement("compile_warm_s", warm),
        _measurement("peak_bytes", [peak_bytes * _MEMORY_FACTOR[case.mode]]),
        _measurement("graphs", [1 + graph_breaks]),
        _measurement("graph_breaks", [graph_breaks]),
        _measurement("recompiles", [0.0]),
        *_compile_costs(cold_s, peak_bytes=peak_bytes, graphs=1 + graph_breaks, night=night),
    )


def _compile_costs(
    cold_s: float, *, peak_bytes: float, graphs: float, night: _Night
) -> Iterator[Measurement]:
    """Yield the metrics of the compiler and of the guards, the same every night."""
    yield _constant("compile_instructions", cold_s * _INSTRUCTIONS_PER_S)
    host_bytes = _COMPILER_BYTES + _COMPILER_BYTES_PER_S * cold_s
    yield _constant("compile_peak_host_bytes", host_bytes)
    yield _constant("compile_peak_compilers_bytes", 0.4 * host_bytes)
    yield _constant("compile_peak_device_bytes", 1.1 * peak_bytes)
    num_guards = round(_GUARDS_PER_S * math.sqrt(cold_s)) * graphs
    yield _constant("guards", num_guards)
    yield _constant("guard_s", _GUARD_S * num_guards * night.machine.time_factor)
    # A graph after a break cannot be cached; a warm compile finds the other one.
    for cache, state in itertools.product(COMPILE_CACHES, CACHES):
        is_warm = state == WARM
        numbers = {"hits": is_warm, "misses": not is_warm, "bypasses": graphs - 1}
        for event, number in numbers.items():
            name = cache_metric(cache, state=state, event=event)
            yield _constant(name, float(number), NUM_LAUNCHES - 1 if is_warm else 1)


def _machine_factor(case: Case, night: _Night) -> float:
    if night.machine != MAIN:
        return night.machine.time_factor
    factor = DRIVER_FACTOR if night.share >= DRIVER_FROM else 1.0
    is_slower = case.model in MEMORY_BOUND and night.share >= MEMORY_FROM
    return factor * (MEMORY_FACTOR if is_slower else 1.0)


def _is_base(case: Case, name: tuple[str, str]) -> bool:
    """Return whether a case of the first block has this model and mode."""
    is_base = (case.phase, case.dtype) == (BASE.phase, BASE.dtype)
    return is_base and (case.model, case.mode) == name


def _code_factor(case: Case, night: _Night) -> float:
    """Return the factor of the planted events on the case's latency this night."""
    if night.factor_of is not None:
        return night.factor_of(case)
    name = (case.model, case.mode)
    if not _is_base(case, name):
        if case.phase is Phase.TRAINING:
            is_slower = name == TRAINING_STEP and night.share >= TRAINING_FROM
            return TRAINING_FACTOR if is_slower else 1.0
        passed = night.number - FP32_FROM * night.num_nights
        is_noisy = name == FP32_SPIKE and 0 <= passed < FP32_NIGHTS
        return FP32_FACTOR if is_noisy else 1.0
    if name == STEP:
        return STEP_FACTOR if night.share >= STEP_FROM else 1.0
    if night.machine != MAIN:
        return 1.0
    if name == FIXED:
        return FIXED_FACTOR if FIXED_FROM <= night.share < FIXED_UNTIL else 1.0
    if name == GAIN:
        return GAIN_FACTOR if night.share >= GAIN_FROM else 1.0
    drifted = max(0, night.number - max(0, night.num_nights - DRIFT_NIGHTS))
    return (1 + DRIFT_PER_NIGHT) ** drifted if name == DRIFT else 1.0


def _samples(generator: np.random.Generator, sd: float, *, num_launches: int) -> np.ndarray:
    """Return factors near 1 that vary by night, by launch and by sample."""
    night = sd * generator.standard_normal()
    launches = LAUNCH_SD * generator.standard_normal(num_launches)
    samples = SAMPLE_SD * generator.standard_normal((num_launches, SAMPLES_PER_LAUNCH))
    return np.asarray(np.exp(night + launches[:, None] + samples).ravel())


@functools.cache
def _constant(metric: str, value: float, num_launches: int = 1) -> Measurement:
    return _measurement(metric, [value] * num_launches)


def _measurement(metric: str, samples: np.ndarray | list[float]) -> Measurement:
    numbers = tuple(float(sample) for sample in samples)
    per_launch = SAMPLES_PER_LAUNCH if len(numbers) > NUM_LAUNCHES else 1
    launches = (per_launch,) * (len(numbers) // per_launch)
    interval = estimate(numbers, launches=launches)
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit,
        samples=numbers,
        launches=launches,
        median=interval.value,
        interval=(interval.low, interval.high),
        method=METHOD,
    )
