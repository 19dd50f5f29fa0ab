"""How much a metric differs between launches of the very same code, before anything is measured.

Method: a normal prior on the log scale with a fixed weight, pooled with what the two sides of a
comparison show themselves (a moderated variance: Smyth, Linear Models and Empirical Bayes Methods,
2004). Two or three launches a side cannot tell their own spread: without the prior, a pair that
happens to agree would call any difference significant.
Assumptions: launches of one case are independent and log-normal with one spread on both sides.
"""

from __future__ import annotations

# The prior counts as eight launches: it outweighs the two to six that a comparison brings, and is
# outvoted by a dozen.
PRIOR_DEGREES = 8.0

# Coefficients of variation between fresh launches of one build, measured on a two-core machine with
# torch 2.13.0 and 16 launches a case: CPU time 0.7-9 % (median case 4 %), wall clock 4-11 % on a
# pinned core, eager over variant CPU time 0.9-2.2 %, the same on the wall clock up to twice that.
_CPU_PRIOR_SD = {
    "latency_s": 0.08,
    "latency_cpu_s": 0.04,
    "speedup": 0.02,
    # Counted from what the allocator reports: it repeats to the byte.
    "peak_bytes": 1e-4,
}
# Not measured on enough devices yet. PyTorch's published repeats of its own nightly suite on a GPU
# differ by 1.8 % in the median and by 7 % in one of ten cases.
_DEVICE_PRIOR_SD = {"latency_s": 0.02, "speedup": 0.02}
# Compilers run many processes on a machine that does other things too.
_COMPILE_PRIOR_SD = 0.10
# The high-water mark of a device's allocator is deterministic but for what the libraries cache.
_MEMORY_PRIOR_SD = 0.01
_OTHER_PRIOR_SD = 0.05

# Latency over the eager latency of the same process, both on the wall clock.
PAIRED_WALL_SD = 0.04


def prior_sd(metric: str, *, device: str) -> float:
    """Return the relative sd between launches that `metric` has on a device of this kind."""
    table = _CPU_PRIOR_SD if device == "cpu" else _DEVICE_PRIOR_SD
    if metric in table:
        return table[metric]
    if metric.startswith("compile_"):
        return _COMPILE_PRIOR_SD
    return _MEMORY_PRIOR_SD if metric == "peak_bytes" else _OTHER_PRIOR_SD
