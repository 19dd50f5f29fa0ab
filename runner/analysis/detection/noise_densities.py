"""Estimate how likely a distance from the level is, from the distances of earlier nights.

Three densities describe the noise. Distances are in units of the floor.

Student density: one peak around the level, normal or Student's with 3 degrees of freedom. It is the
mean over all shapes and widths that are tried, each weighted by its likelihood (a marginal
likelihood). It separates clean noise well but does not know modes.

Kernel density: Student's kernel with 3 degrees of freedom, so that tails stay heavy. A night counts
more if its own predecessor lay where the predecessor of the new night lies (a conditional density:
Rosenblatt, 1969). It knows modes and that they last for days, but a few dozen points make it wide,
and then it hardly separates a step from clean noise. Its likelihood is by leave-one-out (Stone,
1974).

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

import numpy as np

from compile_hud.runner.analysis.detection.constants import (
    LEVEL_POINTS,
    MEDIAN_INEFFICIENCY,
    middle,
)

# The kernel's width is 0.64 (0.9 / sqrt(2)) of Silverman's rule, a tenth of the floor at least:
# finer noise changes no decision about the floor.
BANDWIDTH = 0.9 / math.sqrt(2)
MIN_BANDWIDTH = 0.1
# An unknown series is taken to have a noise of 2 % where the floor is 5 %, as six nights would say.
PRIOR_SD = 0.4
PRIOR_NIGHTS = 6.0
# One night in thirty is an outlier, anywhere within 20 floors.
OUTLIERS = 0.03
OUTLIER_RANGE = 20.0
# What a night not preceded by its like counts, and what staying where one was yesterday does.
UNLIKE_WEIGHT = 0.05
STAY_WEIGHT = 1.0
# Widths of the bell that are tried, in robust sd: 8 points may err by as much, 60 tell the steps.
WIDTHS = np.exp(0.15 * np.arange(-4, 5))
# Where its peak may lie, in standard errors of the level: three places of variance 1.
PEAKS = math.sqrt(1.5) * np.array([-1.0, 0.0, 1.0])
# Student's density with 3 degrees of freedom is this much narrower than the normal one with the
# same middle 60 %.
STUDENT_WIDTH = 0.8601
# Each width at each place.
_EACH_WIDTH = np.tile(WIDTHS, PEAKS.size)
_EACH_PEAK = np.repeat(PEAKS, WIDTHS.size)
# Densities at 0: Student's with 3 degrees of freedom, and the normal one.
_PEAK = 2 / (math.pi * math.sqrt(3))
_NORMAL_PEAK = 1 / math.sqrt(2 * math.pi)
NUM_PARAMETERS = 3
# Fewer points, or a smaller share of them, are outliers and no mode.
MIN_MODE_POINTS = 3
MIN_MODE_SHARE = 0.08
# Points farther than this many sd, and that much of the floor, from the median are outliers, too.
MAX_SD = 3.0
MAX_DISTANCE = 0.3
# Nights that stay or go by chance, which one has seen before any night.
PRIOR_MOVES = 2.0
# Modes that were told apart at first hardly move after as many rounds.
NUM_ROUNDS = 4
_OUTLIER = OUTLIERS / OUTLIER_RANGE


class Density(ABC):
    """How likely a distance is after the one of the night before."""

    @abstractmethod
    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
        """Return that of each of `distances`: runs of nights in a row, which begin at `starts`."""

    def log_density(self, distances: np.ndarray) -> np.ndarray:
        """Return that of each of `distances`, one run a row."""
        num_rows, num_nights = distances.shape
        logs = self.log_runs(distances.ravel(), starts=num_nights * np.arange(num_rows))
        return logs.reshape(distances.shape)

    @abstractmethod
    def log_likelihood(self) -> float:
        """Return that of the noise that it was learnt from."""


class Kernel(Density):
    """The density around the points of `noise` themselves, oldest first.

    `sd` is the robust standard deviation of `noise`, `level_error` the variance of the level that
    they are distances from beyond that of a full one, in variances of the noise.
    """

    def __init__(self, noise: np.ndarray, *, sd: float, level_error: float) -> None:
        self.noise = noise
        silverman = BANDWIDTH * sd * noise.size**-0.2
        self.width = math.sqrt(silverman**2 + MIN_BANDWIDTH**2 + level_error * sd**2)

    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
        """Return that of each of `distances`; the first of a run follows none."""
        near = _student((distances[:, None] - self.noise) / self.width)
        learnt = np.empty(distances.size)
        weights = _weights(near[:-1])
        learnt[1:] = np.einsum("ij,ij->i", weights, near[1:]) / weights.sum(axis=1)
        learnt[starts] = near[starts].sum(axis=1) / self.noise.size
        return self._log(learnt, distances)

    def log_likelihood(self) -> float:
        """Return that of the noise, each of its points by all the others."""
        near = _student((self.noise[:, None] - self.noise) / self.width)
        # No point tells itself, neither as the one before nor as the one that follows it.
        weights = _weights(near[:-1])
        nights = np.arange(1, self.noise.size)
        weights[nights - 1, nights] = 0.0
        np.fill_diagonal(near, 0.0)
        learnt = near.sum(axis=1) / nights.size
        learnt[1:] = (weights * near[1:]).sum(axis=1) / weights.sum(axis=1)
        return float(self._log(learnt, self.noise).sum())

    def _log(self, learnt: np.ndarray, distances: np.ndarray) -> np.ndarray:
        share = PRIOR_NIGHTS / (self.noise.size + PRIOR_NIGHTS)
        density = learnt * ((1 - share) * (_PEAK / self.width))
        density += _student(distances / PRIOR_SD) * (share * (_PEAK / PRIOR_SD))
        return _log_with_outliers(density)


class Bell(Density):
    """The density of noise that has one peak, near the level, learnt from `noise`.

    `sd` and `level_error` are those of Kernel, where the error is beyond that of a full level.
    """

    def __init__(self, noise: np.ndarray, *, sd: float, level_error: float) -> None:
        error = sd * math.sqrt(level_error + MEDIAN_INEFFICIENCY**2 / LEVEL_POINTS)
        self.widths = np.sqrt((sd * _EACH_WIDTH) ** 2 + MIN_BANDWIDTH**2)
        self.peaks = error * _EACH_PEAK
        # Of the normal one of a width and a place, and of Student's there.
        normal, student = self._parts(noise)
        each = [normal * (_NORMAL_PEAK / self.widths)]
        each.append(student * (_PEAK / (STUDENT_WIDTH * self.widths)))
        logs = np.stack([_log_with_outliers(densities).sum(axis=0) for densities in each])
        most = float(logs.max())
        chances = np.exp(logs - most)
        self.chances = chances / chances.sum()
        self._log_likelihood = most + math.log(float(chances.mean()))
        self._of_normal = self.chances[0] * (_NORMAL_PEAK / self.widths)
        self._of_student = self.chances[1] * (_PEAK / (STUDENT_WIDTH * self.widths))

    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return that of each of `distances`, whichever it follows."""
        normal, student = self._parts(distances)
        return _log_with_outliers(normal @ self._of_normal + student @ self._of_student)

    def log_likelihood(self) -> float:
        """Return that of the noise, the mean of all bells that are tried."""
        return self._log_likelihood

    def _parts(self, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the normal densities and Student's, each 1 at its peak."""
        parts = (distances[:, None] - self.peaks) / self.widths
        parts *= parts
        normal = np.exp(-0.5 * parts)
        parts *= 1 / (3 * STUDENT_WIDTH**2)
        parts += 1
        parts *= parts
        return normal, np.reciprocal(parts)


def _weights(before: np.ndarray) -> np.ndarray:
    """Return what each point counts for a night, from how near it lies to the night `before`.

    A point counts where its own predecessor lay near, and where it itself did: noise may stay.
    """
    weights = STAY_WEIGHT * before
    weights[..., 1:] += UNLIKE_WEIGHT + before[..., :-1]
    return weights


def _log_with_outliers(density: np.ndarray) -> np.ndarray:
    return np.asarray(np.log((1 - OUTLIERS) * density + OUTLIERS / OUTLIER_RANGE))


def _student(distances: np.ndarray) -> np.ndarray:
    """Return Student's density with 3 degrees of freedom, 1 at its peak."""
    root = distances * distances
    root /= 3
    root += 1
    root *= root
    return np.asarray(np.reciprocal(root))


class Chain(Density):
    """Two modes, learnt from the points of `noise`, oldest first.

    `belongs` says for each point how likely it is from either mode, to begin with.
    """

    def __init__(self, noise: np.ndarray, *, belongs: np.ndarray) -> None:
        for _ in range(NUM_ROUNDS):
            each = belongs.sum(axis=0) + 1e-9
            self.places = (belongs * noise[:, None]).sum(axis=0) / each
            variance = (belongs * (noise[:, None] - self.places) ** 2).sum() / each.sum()
            self.variances = np.full(2, variance + MIN_BANDWIDTH**2)
            self.shares = (each + 1) / (each + 1).sum()
            belongs = self._belongs(self._parts(noise))
        # A place that few points tell is less known.
        self.variances *= 1 + 1 / (belongs.sum(axis=0) + 1)
        known = self._known(self._parts(noise))
        moves = known[:-1].T @ known[1:] + PRIOR_MOVES * self.shares
        self.moves = moves / moves.sum(axis=1, keepdims=True)
        self.last = self.shares
        logs = self.log_density(noise[None])
        self._log_likelihood = float(logs.sum()) - NUM_PARAMETERS / 2 * math.log(noise.size)
        self.last = known[-1]

    def log_runs(self, distances: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
        """Return that of each of `distances`; the first of a run follows the noise's last point."""
        parts = self._parts(distances)
        before = np.roll(self._known(parts), 1, axis=0)
        before[starts] = self.last
        return np.asarray(np.log(((before @ self.moves) * parts).sum(axis=-1) + _OUTLIER))

    def log_likelihood(self) -> float:
        """Return that of the noise, less what its parameters are worth by chance."""
        return self._log_likelihood

    def _parts(self, distances: np.ndarray) -> np.ndarray:
        """Return the density of each distance in either mode."""
        squares = (distances[..., None] - self.places) ** 2 / self.variances
        peaks = (1 - OUTLIERS) / np.sqrt(2 * math.pi * self.variances)
        return np.asarray(peaks * np.exp(-0.5 * squares))

    def _belongs(self, parts: np.ndarray) -> np.ndarray:
        """Return how likely each night is from either mode; the rest is an outlier."""
        both = self.shares * parts
        return np.asarray(both / (both.sum(axis=-1, keepdims=True) + _OUTLIER))

    def _known(self, parts: np.ndarray) -> np.ndarray:
        """Return how likely each night was in either mode, of which an outlier tells nothing."""
        belongs = self._belongs(parts)
        return np.asarray(belongs + self.shares * (1 - belongs.sum(axis=-1, keepdims=True)))


def two_modes(noise: np.ndarray, *, sd: float) -> Chain | None:
    """Return the modes of `noise`, whose robust standard deviation is `sd`; None where it has one.

    Too few points are one mode.
    """
    ordered = np.sort(noise)
    is_near = np.abs(noise - middle(ordered.tolist())) < MAX_SD * sd + MAX_DISTANCE
    points = np.sort(noise[is_near])
    least = max(MIN_MODE_POINTS, math.ceil(MIN_MODE_SHARE * points.size))
    if points.size <= 2 * least:
        return None
    is_slow = noise >= points[_best_mode_split(points, least=least)]
    return Chain(noise, belongs=(np.stack([~is_slow, is_slow], axis=1) & is_near[:, None]) * 1.0)


def _best_mode_split(points: np.ndarray, *, least: int) -> int:
    """Return how many of `points`, in order of size, make the first of two groups of one width."""
    size = points.size
    first = np.arange(least, size - least + 1)
    sums = points.cumsum()
    low, both = sums[first - 1], sums[-1]
    squares = (points**2).sum() - low**2 / first - (both - low) ** 2 / (size - first)
    share = first / size
    logs = share * np.log(share) + (1 - share) * np.log(1 - share)
    variance = np.maximum(squares, 0.0) / size + MIN_BANDWIDTH**2
    return int(first[(logs - 0.5 * np.log(variance)).argmax()])
