"""Quality checks of a case result: warnings as values, with figures and a next step.

All checks but that of the energy use the headline of the case, on which a verdict rests: the
speedup if there is one, else the latency on the least noisy clock (see sample_checks.py). The
energy comes from a loop of its own, which is compared with the latency. Thresholds are set so that
plain noise gives a warning in fewer than 1 of 100 case results.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compile_hud.db.records.metrics import FLUSHED, METRICS
from compile_hud.db.records.results import Measurement
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import counted, counted_of, signed_percent
from compile_hud.runner.analysis.stats.launch_levels import measured_levels
from compile_hud.runner.analysis.stats.sample_checks import (
    MIN_DRIFT,
    MIN_DRIFT_Z,
    MIN_MODE_SAMPLES,
    drift,
    find_modes,
    half_width,
    min_spread,
)

# The order is from the least noisy; the first metric that a case has is its headline.
HEADLINES = ("speedup", "latency_cpu_s", "latency_s")
# Fewer samples than this have no interval of 95 %.
FEW_SAMPLES = 6
# Other load takes a tenth of the time: wall time is then off by twice the relevance floor.
MIN_CPU_SHARE = 0.9
MAX_STEAL_SHARE = 0.05
# Clocks step by 1 to 2 % by themselves; the CPU's is read at two instants and moves more.
MAX_GPU_CLOCK_CHANGE = 0.05
MAX_CPU_CLOCK_CHANGE = 0.15
# Launches of one build differ by 1 to 3 % (docs/explanation/comparison.md: spreads).
MAX_LAUNCH_SPREAD = 0.03
# An iteration of the energy loop relative to one of the samples. With a reading of the power at
# every batch the device is idle for up to a sixth of the loop (a reading, then five times as long
# of work): 1.2. With slow readings on an H200 it was 1.39 to 1.82. If the loop is faster than the
# samples by as much, it ran other work, or at another clock.
MAX_ENERGY_STRETCH = 1.25
MIN_ENERGY_STRETCH = 1 / MAX_ENERGY_STRETCH
# Reasons that NVML gives for a clock that is not limited.
IDLE_REASONS = frozenset(
    {"gpu_idle", "none", "applications_clocks_setting", "display_clock_setting"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The device and the earlier attempts, which decide the text of a hint.

    A `target_interval` of 0 means fixed numbers of launches and rounds.
    """

    device: str
    num_launches: int
    max_launches: int
    num_rounds: int
    budget_s: float
    num_threads: int
    target_interval: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeadlineSamples:
    """The input of the checks: the headline's samples and levels, launch by launch."""

    metric: str
    launches: tuple[np.ndarray, ...]
    levels: np.ndarray
    details: Mapping[str, Any]
    attempts: Attempts

    def per_launch(self, name: str) -> list[Mapping[str, Any]]:
        """Return the detail `name` of every launch that has it."""
        values = self.details.get(name)
        launches = values if isinstance(values, list) else []
        return [item for item in launches if isinstance(item, Mapping)]


def stability_warnings(
    measurements: Sequence[Measurement], *, details: Mapping[str, Any], attempts: Attempts
) -> tuple[RunWarning, ...]:
    """Return the warnings about a case result's numbers; empty if there are none."""
    measured = {item.metric: item for item in measurements}
    headline = find_headline(measured)
    if headline is None:
        return ()
    samples = np.asarray(measured[headline].samples)
    evidence = _HeadlineSamples(
        metric=headline,
        launches=tuple(np.split(samples, np.cumsum(measured[headline].launches)[:-1])),
        levels=measured_levels(measured, headline),
        details=details,
        attempts=attempts,
    )
    checks = (
        _few_samples,
        _unsettled,
        _drift,
        _bimodal,
        _noisy_neighbour,
        _crowded,
        _stolen,
        _clock_change,
        _throttled,
        _launches_disagree,
    )
    warnings = [warning for check in checks if (warning := check(evidence)) is not None]
    if (of_energy := _other_loop(measured, device=attempts.device)) is not None:
        warnings.append(of_energy)
    return tuple({warning.code: warning for warning in reversed(warnings)}.values())[::-1]


def find_headline(metrics: Collection[str]) -> str | None:
    """Return the least noisy of `metrics`; None without a latency among them."""
    return next((name for name in HEADLINES if name in metrics), None)


def _few_samples(evidence: _HeadlineSamples) -> RunWarning | None:
    counts = [
        int(launch["num_rounds"])
        for launch in evidence.per_launch("sampling")
        if launch["stopped_by"] == "budget" and launch["num_rounds"] < FEW_SAMPLES
    ]
    if not counts:
        return None
    attempts = evidence.attempts
    return RunWarning(
        code="few-samples",
        text=f"only {counted(min(counts), 'round')} fitted into the {attempts.budget_s:g} s of"
        f" {counted_of(len(counts), len(evidence.launches), 'launch')}",
        hint=f"raise [run] budget_s above {attempts.budget_s:g}, or take a smaller shape",
    )


def _unsettled(evidence: _HeadlineSamples) -> RunWarning | None:
    moving = [item for item in evidence.per_launch("sampling") if not item["is_settled"]]
    if not moving:
        return None
    falls = max(int(item["num_falls"]) for item in moving)
    rounds = max(int(item["num_warmup_rounds"]) for item in moving)
    by_budget = any(item["stopped_by"] == "budget" for item in moving)
    attempts = evidence.attempts
    key, value = ("budget_s", attempts.budget_s) if by_budget else ("rounds", attempts.num_rounds)
    return RunWarning(
        code="unsettled",
        text=f"in {counted_of(len(moving), len(evidence.launches), 'launch')} the time fell"
        f" {counted(falls, 'time')} while samples were taken,"
        f" the last after {rounds} warm-up rounds",
        hint="the model still compiles, caches or grows after many calls: see recompiles,"
        f" or raise [run] {key} above {value:g}",
    )


def _drift(evidence: _HeadlineSamples) -> RunWarning | None:
    z, change = drift(evidence.launches)
    if abs(z) < MIN_DRIFT_Z or abs(change) < MIN_DRIFT:
        return None
    has_clocks = bool(evidence.per_launch("telemetry"))
    return RunWarning(
        code="drift",
        text=f"{evidence.metric} moved by {signed_percent(change)} from the first to the last round"
        f" of a launch (Mann-Kendall z = {z:.1f})",
        hint="see the clocks and temperatures of the launches"
        if has_clocks
        else "something heats up, fills up or leaks: run the case alone on an idle machine"
        f" and raise [run] rounds above {evidence.attempts.num_rounds} to see where it ends",
    )


def _bimodal(evidence: _HeadlineSamples) -> RunWarning | None:
    modes = [mode for part in evidence.launches if (mode := find_modes(part)) is not None]
    long_enough = sum(part.size >= MIN_MODE_SAMPLES for part in evidence.launches)
    if not modes or len(modes) < long_enough / 2:
        return None
    clearest = max(modes, key=lambda mode: mode.distance)
    unit = METRICS[evidence.metric].unit
    several = evidence.attempts.num_threads > 1
    return RunWarning(
        code="bimodal",
        text=f"{evidence.metric} has two modes, {clearest.low:.3g} {unit} and {clearest.high:.3g}"
        f" {unit} ({clearest.high_share:.0%} of the samples), in {len(modes)} of"
        f" {counted(len(evidence.launches), 'launch')}: the median may jump from one to the other",
        hint=f"try [run] threads = 1 instead of {evidence.attempts.num_threads}"
        if several
        else "look at the samples: a model that alternates between two paths, or a clock that"
        " switches; more rounds will not help",
    )


def _noisy_neighbour(evidence: _HeadlineSamples) -> RunWarning | None:
    looks = [
        item
        for item in evidence.per_launch("conditions")
        if item.get("cpu_share") is not None
        and item["cpu_share"] < MIN_CPU_SHARE
        # A thread that waits by itself (for a disk, a lock) gives its core up voluntarily.
        and item["involuntary_switches"] > item["voluntary_switches"]
    ]
    if not looks:
        return None
    largest = min(looks, key=lambda item: float(item["cpu_share"]))
    core = evidence.details.get("core")
    trusted = "latency_cpu_s" if evidence.metric != "speedup" else "speedup and latency_cpu_s"
    core_text = "its core" if core is None else f"core {core}, to which it is pinned,"
    return RunWarning(
        code="noisy-neighbour",
        text=f"in {counted_of(len(looks), len(evidence.launches), 'launch')} other processes took"
        " the core"
        f" away: the worker ran {largest['cpu_share']:.0%} of the time,"
        f" was interrupted {counted(largest['involuntary_switches'], 'time')}, load"
        f" {largest['load'][1]:.1f}",
        hint=f"keep other work off {core_text} (taskset, cpuset), or run when the machine is idle;"
        f" until then trust {trusted}, not the wall clock: latency_s and compile times",
    )


def _crowded(evidence: _HeadlineSamples) -> RunWarning | None:
    """Return the warning of a case with several threads, whose CPU time no clock measures."""
    looks = [
        item
        for item in evidence.per_launch("conditions")
        if item.get("cores_left") is not None
        and item["num_threads"] > 1
        and item["cores_left"] < MIN_CPU_SHARE * item["num_threads"]
    ]
    if not looks:
        return None
    largest = min(looks, key=lambda item: float(item["cores_left"]))
    return RunWarning(
        code="noisy-neighbour",
        text=f"in {counted_of(len(looks), len(evidence.launches), 'launch')} other processes left"
        f" {largest['cores_left']:.1f} cores to {counted(largest['num_threads'], 'thread')},"
        f" load {largest['load'][1]:.1f}",
        hint="run when the machine is idle, or with [run] threads = 1, which is timed by the CPU"
        " time of its thread: with several no number of this result tells work from waiting",
    )


def _stolen(evidence: _HeadlineSamples) -> RunWarning | None:
    shares = [item.get("steal_share") for item in evidence.per_launch("conditions")]
    largest = max((float(share) for share in shares if share is not None), default=0.0)
    if largest <= MAX_STEAL_SHARE:
        return None
    return RunWarning(
        code="noisy-neighbour",
        text=f"the hypervisor gave {largest:.0%} of the CPU time to other machines",
        hint="a virtual machine cannot see who: use a host or an instance of your own;"
        f" {evidence.attempts.num_launches} or more launches at other times average some of it out",
    )


def _clock_change(evidence: _HeadlineSamples) -> RunWarning | None:
    gpu = [
        float(np.median(item["clock_sm_mhz"]))
        for item in evidence.per_launch("telemetry")
        if item.get("clock_sm_mhz")
    ]
    cpu = [
        hertz / 1e6
        for item in evidence.per_launch("conditions")
        for hertz in item.get("cpu_frequency_hz") or ()
        if hertz
    ]
    for name, clocks, most in (
        ("SM clock", gpu, MAX_GPU_CLOCK_CHANGE),
        ("CPU clock", cpu, MAX_CPU_CLOCK_CHANGE),
    ):
        if clocks and max(clocks) > min(clocks) * (1 + most):
            return RunWarning(
                code="clock-change",
                text=f"the {name} was {min(clocks):.0f} to {max(clocks):.0f} MHz while samples were"
                f" taken, {max(clocks) / min(clocks) - 1:.0%} apart",
                hint="lock the clocks (`nvidia-smi --lock-gpu-clocks`)"
                if name == "SM clock"
                else "set the frequency governor to `performance` and switch turbo off",
            )
    return None


def _throttled(evidence: _HeadlineSamples) -> RunWarning | None:
    launches = evidence.per_launch("telemetry")
    reasons = [_reasons(item) for item in launches]
    if not any(reasons):
        return None
    names = ", ".join(sorted(set().union(*reasons)))
    hottest = max((t for item in launches for t in item.get("temperature_c") or ()), default=None)
    power = max((w for item in launches for w in item.get("power_w") or ()), default=None)
    figures = [
        text
        for text in (
            f"{hottest:.0f} C" if hottest is not None else "",
            f"{power:.0f} W" if power is not None else "",
        )
        if text
    ]
    return RunWarning(
        code="throttled",
        text="the GPU held its clocks back in "
        f"{counted_of(sum(map(bool, reasons)), len(launches), 'launch')}: {names}"
        + (f" (up to {', '.join(figures)})" if figures else ""),
        hint="lock the clocks below what it can hold (`nvidia-smi --lock-gpu-clocks`), or cool it",
    )


def _reasons(telemetry: Mapping[str, Any]) -> set[str]:
    reasons: set[str] = set()
    for reason in telemetry.get("throttle_reasons") or ():
        reasons.update([reason] if isinstance(reason, str) else reason)
    return reasons - IDLE_REASONS


def _launches_disagree(evidence: _HeadlineSamples) -> RunWarning | None:
    levels, attempts = evidence.levels, evidence.attempts
    reach = half_width(levels)
    if min_spread(levels) < MAX_LAUNCH_SPREAD or reach <= attempts.target_interval:
        return None
    # The interval of two launches is honest, but so wide that it reads as a mistake.
    interval = f", their 95 % interval is +-{reach:.1%}" if levels.size > 2 else ""
    return RunWarning(
        code="launches-disagree",
        text=f"{evidence.metric} differs between fresh processes: {counted(levels.size, 'launch')}"
        " are up to"
        f" {levels.max() / levels.min() - 1:.1%} apart{interval}",
        hint=_more_launches(levels.size, attempts=attempts),
    )


def _other_loop(measured: Mapping[str, Measurement], *, device: str) -> RunWarning | None:
    """Return the warning about energy from iterations that took another time than the samples.

    Power is the energy of the loop over its time, so an iteration took energy over power. On a CPU
    neighbours slow both loops, and the counter of its package includes their energy anyway.
    """
    if device == "cpu":
        return None
    energy, power, latency = (measured.get(name) for name in ("energy_j", "power_w", "latency_s"))
    # The loop evicts nothing from the cache, and enqueues kernels while no flush is running.
    if energy is None or power is None or latency is None or FLUSHED in latency.method:
        return None
    if power.median <= 0.0:
        return None
    iteration_s = energy.median / power.median
    # The launch that measures energy is the first one.
    latency_s = statistics.median(latency.samples[: next(iter(latency.launches), None)])
    slowdown = iteration_s / latency_s
    if MIN_ENERGY_STRETCH <= slowdown <= MAX_ENERGY_STRETCH:
        return None
    is_slower = slowdown > 1.0
    return RunWarning(
        code="energy-loop",
        text=f"an iteration of the energy loop took {iteration_s:.3g} s, {slowdown:.2f} times its"
        f" latency of {latency_s:.3g} s: energy_j and power_w are not those of the work that was"
        " timed",
        hint="the device waited for something else in the loop, so that energy_j is too high and"
        " power_w too low: measure again with nothing else on the machine and the device; what"
        " stays is the counter or the driver, see details.energy, and compare neither number"
        if is_slower
        else "the samples were slower than the loop: measure again with nothing else on the machine"
        " and the device, at fixed clocks (`hud doctor`); what stays is a model that does less when"
        " called again at once, and its energy_j is of that",
    )


def _more_launches(num_launches: int, *, attempts: Attempts) -> str:
    if attempts.target_interval == 0:
        return "set [run] target_interval above 0, so that a case like this gets more launches"
    if num_launches < attempts.max_launches:
        return "there was no time for more launches: raise [run] timeout_s"
    return (
        f"raise max_launches above {num_launches}, in [run] or for the suite; if the levels stay"
        " apart, compare runs by the interval, not by single launches"
    )
