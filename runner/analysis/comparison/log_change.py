"""A change on the log scale with its standard error: interval, p-value and test of equivalence.

Method: Student's distribution. The interval is that of this one change. Equivalence is tested by
two one-sided tests (TOST; Schuirmann, 1987): a change of the floor is ruled out on both sides.
Degrees of freedom of a variance that is put together are Satterthwaite's.
Assumptions: the estimate is normal, its variance a scaled chi-square with `degrees` of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from compile_hud.runner.analysis.stats.estimates import CONFIDENCE, student_quantile

# Fewer pairs of launches do not show their own spread.
MIN_SETTLING_LAUNCHES = 4
# A test at 5 % that succeeds in nine of ten cases.
_NORMAL_95_ONE_SIDED, _NORMAL_90_ONE_SIDED = 1.645, 1.282
# A larger ratio, or one over it, times 100 is beyond floating point; imports have any numbers.
_MAX_LOG = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange:
    """An estimate of log(candidate / baseline), its standard error and degrees of freedom.

    `launch_sd` is the relative sd between launches that the error is made of. `num_pairs` is the
    number of interleaved pairs of launches, 0 for two runs.
    """

    log: float
    error: float
    degrees: float
    launch_sd: float = 0.0
    num_pairs: int = 0

    @property
    def ratio(self) -> float:
        """Return candidate / baseline."""
        return bounded_exp(self.log)

    def covering(self, ratio: float) -> LogChange:
        """Return the change, or `ratio` with an interval that covers both if its own does not.

        Two estimates of one change that are further apart than the error show that it is larger.
        """
        log = math.log(ratio)
        error = abs(log - self.log) / student_quantile((1 + CONFIDENCE) / 2, degrees=self.degrees)
        return replace(self, log=log, error=error) if error > self.error else self

    @property
    def p_value(self) -> float:
        """Return the probability that equal sides differ by this much, either way."""
        if self.error <= 0:
            return 1.0 if self.log == 0 else 0.0
        return min(1.0, 2 * _upper_tail(abs(self.log) / self.error, degrees=self.degrees))

    def interval(self, error_rate: float = 1 - CONFIDENCE) -> tuple[float, float]:
        """Return the two-sided interval of the ratio that misses it at `error_rate`."""
        margin = student_quantile(1 - error_rate / 2, degrees=self.degrees) * self.error
        return bounded_exp(self.log - margin), bounded_exp(self.log + margin)

    def equivalence_p_value(self, floor: float) -> float:
        """Return the probability that a change of `floor` (0.05 is 5 %) looks as small as this."""
        room = math.log1p(floor) - abs(self.log)
        if self.error <= 0:
            return 0.0 if room > 0 else 1.0
        return _upper_tail(room / self.error, degrees=self.degrees)

    def resolution(self, error_rate: float = 1 - CONFIDENCE) -> float:
        """Return the smallest relative change that would have been outside of the interval."""
        quantile = student_quantile(1 - error_rate / 2, degrees=self.degrees)
        return bounded_exp(quantile * self.error) - 1


def num_launches_to_settle(launch_sd: float, *, floor: float) -> int:
    """Return the number of interleaved pairs that tells equal sides from a change of `floor`.

    With two one-sided tests, in nine of ten cases; `launch_sd` is relative.
    """
    target = math.log1p(floor) / (_NORMAL_95_ONE_SIDED + _NORMAL_90_ONE_SIDED)
    return max(MIN_SETTLING_LAUNCHES, math.ceil(2 * (launch_sd / target) ** 2))


def bounded_ratio(ratio: float) -> float:
    """Return a ratio of two positive numbers, bounded so that its logarithm can be computed."""
    return max(bounded_exp(-_MAX_LOG), min(ratio, bounded_exp(_MAX_LOG)))


def bounded_exp(log: float) -> float:
    """Return exp(log), bounded so that percentages of it can be computed."""
    return math.exp(max(-_MAX_LOG, min(log, _MAX_LOG)))


def satterthwaite(parts: Iterable[tuple[float, float]]) -> float:
    """Return the degrees of freedom of the sum of variances, each with its degrees of freedom."""
    terms = [(variance, degrees) for variance, degrees in parts if variance]
    spread = sum(variance**2 / degrees for variance, degrees in terms)
    total = sum(variance for variance, _ in terms)
    return total**2 / spread if spread > 0 else math.inf


def _upper_tail(value: float, *, degrees: float) -> float:
    from scipy.special import stdtr

    return float(stdtr(degrees, -value))
