"""How likely a distance from the level is, learnt from the distances of earlier nights in two ways.

Kernel: a kernel density (Student's with 3 degrees of freedom, so that tails stay heavy), in which
those earlier nights count more whose own predecessor lay where this night's did (a conditional
density: Rosenblatt, 1969). It knows modes and that they hold for days, but a few dozen points make
it wide, and then it hardly tells a step from noise that is clean.
Bell: one peak around the level, normal or Student's with 3 degrees of freedom, as wide as the
points say: the mean of all shapes and widths that are tried, weighted by how likely each makes the
points. It tells clean noise well, and knows no modes.
Which of them the noise is told by is how likely it is in each: for the kernel every point by all
the others (Stone, 1974), for the bell the mean over its shapes (a marginal likelihood).
Little history is supplemented in the kernel by a prior, and in both by an outlier anywhere.
Assumptions: distances in units of the floor; the noise depends on the night before at most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from compile_hud.runner.analysis.detection.constants import LEVEL_POINTS, MEDIAN_INEFFICIENCY

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
