"""The prior spread of a metric between launches of the very same code.

Method: a normal prior on the log scale with a fixed weight. It is pooled with the spreads of the
two sides of a comparison (a moderated variance: Smyth, Linear Models and Empirical Bayes Methods,
2004). Two or three launches a side cannot show their own spread: without the prior, a pair that
happens to agree would call any difference significant.
Assumptions: launches of one case are independent and log-normal with one spread on both sides. A
common effect of the run is excepted; its spread is taken as known.
"""

from __future__ import annotations

from compile_hud.runner.analysis.stats.estimates import Spread

# The weight of the prior in launches. It outweighs the two to six of a comparison, and a dozen
# launches outweigh it.
PRIOR_DEGREES = 8.0
# The same in a paired comparison, which brings eight launches a side and more and shows its own
# spread sooner.
PAIR_PRIOR_DEGREES = 4.0

# Coefficients of variation between fresh launches of one build, measured on a two-core machine with
# torch 2.13.0 and 16 launches a case. Wall clock 4-11 % on a pinned core, eager over variant CPU
# time 0.9-2.2 %, the same on the wall clock up to twice that. CPU time: 0.7-9 %, and 0.7-2.8 % on a
# quiet machine with a fixed address layout.
_CPU_PRIOR_SD = {
    "latency_s": 0.08,
    "latency_cpu_s": 0.03,
    "speedup": 0.02,
    # Seven cold compilations of one model each on a calm core: 1.3 and 1.5 %; shared caches and
    # memory take up to 5 % of a busy one.
    "compile_cold_cpu_s": 0.05,
    # Their number varies less than the CPU time that they take, which does by 1.5 % on a calm core.
    "compile_instructions": 0.015,
    # The allocator's counts repeat to the byte.
    "peak_bytes": 1e-4,
}
# The same where launches that a neighbour disturbed are left out. Four small models, 24 interleaved
# pairs each on a busy machine: 0.9-2.7 % for the CPU time of three of them.
_CALM_CPU_PRIOR_SD = {"latency_s": 0.04, "latency_cpu_s": 0.02}
# Measured on one H100 with torch 2.11: 33 compiled cases that wait for the GPU, two launches each
# (docs/explanation/gpu.md). The latency differs by 4.5 % in root mean square, by 1.5 % as the
# median says. The speedup differs by 6.3 % as the median says: eager waits for the host. Its root
# mean square of 17 % is that of a few launches, which the launches themselves show.
_DEVICE_PRIOR_SD = {"latency_s": 0.04, "speedup": 0.06}
# Compilers run many processes and read many files. On a CPU with busy neighbours, repeats of one
# cold compilation took from 4.6 to 15.6 s.
_COMPILE_PRIOR_SD = 0.10
_CPU_COMPILE_PRIOR_SD = 0.15
_BUSY_COMPILE_PRIOR_SD = 0.5
# The high-water mark of a device's allocator is deterministic, except for caches of libraries.
_MEMORY_PRIOR_SD = 0.01
_OTHER_PRIOR_SD = 0.05
# Ten cold compilations of one model in fresh processes: 0.6 % for the process, 0.3 % for the C++
# compiler. Threads of the compiler, as on a GPU, allocate in an order of their own.
_COMPILE_MEMORY_PRIOR_SD = 0.02

# Computed from the samples of another metric or taken in the same way: their spread is its spread.
_SPREADS_LIKE = {
    "throughput_samples_per_s": "latency_s",
    "throughput_tokens_per_s": "latency_s",
    "eager_latency_s": "latency_s",
    "eager_latency_cpu_s": "latency_cpu_s",
}

# The common effect of one run on all its launches: other load of the machine, and the pages of the
# files. Twelve runs of one build (BERT, three launches each) with busy neighbours: run means of the
# speedup differed by 1.7 %, its launches by 2.0 %, which leaves 1.2 % for the runs. Absolute times
# count on a quiet machine only (cpu_clocks.py).
_CPU_RUN_SD = {"latency_s": 0.015, "latency_cpu_s": 0.015, "speedup": 0.012}

# A latency over the eager latency of the same process, on the same clock.
PAIRED_WALL_SD = 0.04
PAIRED_CPU_SD = 0.02


def prior_sd(metric: str, *, device: str, is_quiet: bool = True) -> float:
    """Return the prior relative sd of `metric` between launches on a device of this kind.

    `is_quiet` says whether the machine was idle otherwise, as far as known.
    """
    metric = _SPREADS_LIKE.get(metric, metric)
    table = _CPU_PRIOR_SD if device == "cpu" else _DEVICE_PRIOR_SD
    if metric in table:
        return table[metric]
    if metric.startswith("compile_peak_"):
        return _COMPILE_MEMORY_PRIOR_SD
    if metric.startswith("compile_"):
        if not is_quiet:
            return _BUSY_COMPILE_PRIOR_SD
        return _CPU_COMPILE_PRIOR_SD if device == "cpu" else _COMPILE_PRIOR_SD
    return _MEMORY_PRIOR_SD if metric == "peak_bytes" else _OTHER_PRIOR_SD


def calm_sd(metric: str, *, device: str) -> float:
    """Return the relative sd between launches of `metric` that nothing disturbed."""
    calm = _CALM_CPU_PRIOR_SD if device == "cpu" else {}
    return calm.get(_SPREADS_LIKE.get(metric, metric), prior_sd(metric, device=device))


def launch_spread(metric: str, *, device: str) -> Spread:
    """Return the prior spread of `metric` between launches on a device of this kind."""
    return Spread(sd=prior_sd(metric, device=device), degrees=PRIOR_DEGREES)


def run_sd(metric: str, *, device: str) -> float:
    """Return the relative sd between runs of one build, beyond that of their launches."""
    return _CPU_RUN_SD.get(_SPREADS_LIKE.get(metric, metric), 0.0) if device == "cpu" else 0.0
