"""Estimate how likely a distance from the level is, from the distances of earlier nights.

Three densities describe the noise. Distances are in units of the floor.

Student density: one peak near the level, normal or Student's with 3 degrees of freedom. It is the
mean over all shapes and widths that are tried, each weighted by its likelihood (a marginal
likelihood). It separates clean noise well but does not know modes.

Kernel density: Student's kernel with 3 degrees of freedom, so that tails stay heavy. A night counts
more if its own predecessor lay where the predecessor of the new night lies (a conditional density:
Rosenblatt, 1969). It knows modes and that they last for days. A few dozen points make it wide, and
then it hardly separates a step from clean noise. Its likelihood is by leave-one-out (Stone, 1974).

Two-state Markov chain: two normal densities of one width; the state of a night depends on the night
before (a switching regime: Hamilton, Econometrica, 1989). It starts from the split of the points
into two groups that fits best and continues by expectation-maximisation (Dempster, Laird and Rubin,
1977). It resolves two modes more finely than the kernel. Its likelihood is reduced by half of ln(n)
for each parameter that a single peak does not have (Schwarz, Annals of Statistics, 1978): the
distance of the modes, the share of the second one, and how long it lasts.

A prior supplements short histories in the kernel density. All three allow for outliers anywhere.
Assumption: the noise depends on the night before at most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.stats.estimates import MEDIAN_INEFFICIENCY, sorted_median

# Student's density with 3 degrees of freedom is this much narrower than the normal one with the
# same middle 60 %.
STUDENT_WIDTH = 0.8601
# Densities at 0: Student's with 3 degrees of freedom, and the normal one.
_PEAK = 2 / (math.pi * math.sqrt(3))
_NORMAL_PEAK = 1 / math.sqrt(2 * math.pi)
# Parameters of the Markov chain that a single peak does not have.
NUM_PARAMETERS = 3


class Density(ABC):
    """The density of a night's distance, given that of the night before."""

    config: DetectorConfig

    @abstractmethod
    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
        """Return the log density of each of `distances`: runs of nights that begin at `starts`."""

    def log_density(self, distances: np.ndarray) -> np.ndarray:
        """Return the log density of each of `distances`, one run a row."""
        num_rows, num_nights = distances.shape
        logs = self.log_runs(distances.ravel(), starts=num_nights * np.arange(num_rows))
        return logs.reshape(distances.shape)

    @abstractmethod
    def log_likelihood(self) -> float:
        """Return the log likelihood of the noise that the density was estimated from."""

    def _log_with_outliers(self, density: np.ndarray) -> np.ndarray:
        outliers = self.config.outlier_share
        floor = outliers / self.config.outlier_range
        return np.asarray(np.log((1 - outliers) * density + floor))


class KernelDensity(Density):
    """The sum of kernels at the points of `noise`, oldest first.

    `sd` is the robust standard deviation of `noise`. `level_error` is the variance of the level in
    excess of a full one's, in variances of the noise.
    """

    def __init__(
        self,
        noise: np.ndarray,
        *,
        sd: float,
        level_error: float,
        config: DetectorConfig = DEFAULT_CONFIG,
    ) -> None:
        self.noise = noise
        self.config = config
        silverman = config.kernel_bandwidth * sd * noise.size**-0.2
        self.width = math.sqrt(silverman**2 + config.min_bandwidth**2 + level_error * sd**2)

    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
        """Return the log density of each of `distances`; the first of a run has no predecessor."""
        near = _student((distances[:, None] - self.noise) / self.width)
        learnt = np.empty(distances.size)
        weights = self._weights(near[:-1])
        learnt[1:] = np.einsum("ij,ij->i", weights, near[1:]) / weights.sum(axis=1)
        learnt[starts] = near[starts].sum(axis=1) / self.noise.size
        return self._log(learnt, distances)

    def log_likelihood(self) -> float:
        """Return the log likelihood of the noise, each point given all others."""
        near = _student((self.noise[:, None] - self.noise) / self.width)
        # A point must not describe itself, neither as a predecessor nor as a successor.
        weights = self._weights(near[:-1])
        nights = np.arange(1, self.noise.size)
        weights[nights - 1, nights] = 0.0
        np.fill_diagonal(near, 0.0)
        learnt = near.sum(axis=1) / nights.size
        learnt[1:] = (weights * near[1:]).sum(axis=1) / weights.sum(axis=1)
        return float(self._log(learnt, self.noise).sum())

    def _weights(self, before: np.ndarray) -> np.ndarray:
        """Return the weight of each point for a night, from its nearness to the night `before`.

        A point counts if its own predecessor was near, and if it was near itself: noise may stay.
        """
        weights = self.config.stay_weight * before
        weights[..., 1:] += self.config.unlike_weight + before[..., :-1]
        return weights

    def _log(self, learnt: np.ndarray, distances: np.ndarray) -> np.ndarray:
        prior_nights, prior_sd = self.config.prior_nights, self.config.prior_sd
        share = prior_nights / (self.noise.size + prior_nights)
        density = learnt * ((1 - share) * (_PEAK / self.width))
        density += _student(distances / prior_sd) * (share * (_PEAK / prior_sd))
        return self._log_with_outliers(density)


class StudentDensity(Density):
    """The density of noise with one peak near the level, estimated from `noise`.

    `sd` and `level_error` are as for KernelDensity.
    """

    def __init__(
        self,
        noise: np.ndarray,
        *,
        sd: float,
        level_error: float,
        config: DetectorConfig = DEFAULT_CONFIG,
    ) -> None:
        self.config = config
        widths, peaks = _shapes(config)
        error = sd * math.sqrt(level_error + MEDIAN_INEFFICIENCY**2 / config.level_points)
        self.widths = np.sqrt((sd * widths) ** 2 + config.min_bandwidth**2)
        self.peaks = error * peaks
        # The normal density of each width and peak, and Student's.
        normal, student = self._components(noise)
        densities = [normal * (_NORMAL_PEAK / self.widths)]
        densities.append(student * (_PEAK / (STUDENT_WIDTH * self.widths)))
        logs = np.stack([self._log_with_outliers(each).sum(axis=0) for each in densities])
        most = float(logs.max())
        chances = np.exp(logs - most)
        self.chances = chances / chances.sum()
        self._log_likelihood = most + math.log(float(chances.mean()))
        self._normal_weights = self.chances[0] * (_NORMAL_PEAK / self.widths)
        self._student_weights = self.chances[1] * (_PEAK / (STUDENT_WIDTH * self.widths))

    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return the log density of each of `distances`, independent of its predecessor."""
        normal, student = self._components(distances)
        return self._log_with_outliers(
            normal @ self._normal_weights + student @ self._student_weights
        )

    def log_likelihood(self) -> float:
        """Return the log likelihood of the noise, the mean over all shapes."""
        return self._log_likelihood

    def _components(self, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the normal densities and Student's, each 1 at its peak."""
        scaled = (distances[:, None] - self.peaks) / self.widths
        scaled *= scaled
        normal = np.exp(-0.5 * scaled)
        scaled *= 1 / (3 * STUDENT_WIDTH**2)
        scaled += 1
        scaled *= scaled
        return normal, np.reciprocal(scaled)


class TwoStateMarkov(Density):
    """Two modes that nights stay in or leave, estimated from `noise`, oldest first.

    `memberships` are the initial probabilities of each point for both modes.
    """

    def __init__(
        self,
        noise: np.ndarray,
        *,
        memberships: np.ndarray,
        config: DetectorConfig = DEFAULT_CONFIG,
    ) -> None:
        self.config = config
        self._outlier_density = config.outlier_share / config.outlier_range
        for _ in range(config.num_em_rounds):
            counts = memberships.sum(axis=0) + 1e-9
            self.centres = (memberships * noise[:, None]).sum(axis=0) / counts
            variance = (memberships * (noise[:, None] - self.centres) ** 2).sum() / counts.sum()
            self.variances = np.full(2, variance + config.min_bandwidth**2)
            self.shares = (counts + 1) / (counts + 1).sum()
            memberships = self._memberships(self._components(noise))
        # A centre that few points describe is less certain.
        self.variances *= 1 + 1 / (memberships.sum(axis=0) + 1)
        states = self._states(self._components(noise))
        transitions = states[:-1].T @ states[1:] + config.prior_transitions * self.shares
        self.transitions = transitions / transitions.sum(axis=1, keepdims=True)
        self.last = self.shares
        logs = self.log_density(noise[None])
        self._log_likelihood = float(logs.sum()) - NUM_PARAMETERS / 2 * math.log(noise.size)
        self.last = states[-1]

    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
        """Return the log densities of runs, each of which follows the noise's last point."""
        components = self._components(distances)
        before = np.roll(self._states(components), 1, axis=0)
        before[starts] = self.last
        densities = ((before @ self.transitions) * components).sum(axis=-1)
        return np.asarray(np.log(densities + self._outlier_density))

    def log_likelihood(self) -> float:
        """Return the log likelihood of the noise, less the worth of its parameters by chance."""
        return self._log_likelihood

    def _components(self, distances: np.ndarray) -> np.ndarray:
        """Return the density of each distance in either mode."""
        squares = (distances[..., None] - self.centres) ** 2 / self.variances
        peaks = (1 - self.config.outlier_share) / np.sqrt(2 * math.pi * self.variances)
        return np.asarray(peaks * np.exp(-0.5 * squares))

    def _memberships(self, components: np.ndarray) -> np.ndarray:
        """Return the probability of each night for either mode; the rest is an outlier."""
        both = self.shares * components
        return np.asarray(both / (both.sum(axis=-1, keepdims=True) + self._outlier_density))

    def _states(self, components: np.ndarray) -> np.ndarray:
        """Return the probability of either mode on each night; an outlier does not affect it."""
        memberships = self._memberships(components)
        return np.asarray(memberships + self.shares * (1 - memberships.sum(axis=-1, keepdims=True)))


def find_two_modes(
    noise: np.ndarray, *, sd: float, config: DetectorConfig = DEFAULT_CONFIG
) -> TwoStateMarkov | None:
    """Return the two modes of `noise`, or None if it has one or too few points.

    `sd` is the robust standard deviation of `noise`.
    """
    median = sorted_median(np.sort(noise).tolist())
    is_near = np.abs(noise - median) < config.mode_range_sds * sd + config.mode_range_floors
    points = np.sort(noise[is_near])
    min_points = max(config.min_mode_points, math.ceil(config.min_mode_share * points.size))
    if points.size <= 2 * min_points:
        return None
    split = _best_mode_split(points, min_points=min_points, min_variance=config.min_bandwidth**2)
    is_slow = noise >= points[split]
    memberships = (np.stack([~is_slow, is_slow], axis=1) & is_near[:, None]) * 1.0
    return TwoStateMarkov(noise, memberships=memberships, config=config)


def _best_mode_split(points: np.ndarray, *, min_points: int, min_variance: float) -> int:
    """Return the size of the first of two groups of one width, from `points` in order of size."""
    size = points.size
    first = np.arange(min_points, size - min_points + 1)
    sums = points.cumsum()
    low, both = sums[first - 1], sums[-1]
    squares = (points**2).sum() - low**2 / first - (both - low) ** 2 / (size - first)
    share = first / size
    logs = share * np.log(share) + (1 - share) * np.log(1 - share)
    variance = np.maximum(squares, 0.0) / size + min_variance
    return int(first[(logs - 0.5 * np.log(variance)).argmax()])


@lru_cache(maxsize=8)
def _shapes(config: DetectorConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return width and peak of each shape of the Student density."""
    widths, peaks = np.array(config.student_widths), np.array(config.student_peaks)
    return np.tile(widths, peaks.size), np.repeat(peaks, widths.size)


def _student(distances: np.ndarray) -> np.ndarray:
    """Return Student's density with 3 degrees of freedom, 1 at its peak."""
    root = distances * distances
    root /= 3
    root += 1
    root *= root
    return np.asarray(np.reciprocal(root))
