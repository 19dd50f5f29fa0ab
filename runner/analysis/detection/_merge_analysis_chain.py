"""How likely a distance from the level is where nights are in one of two modes, which may hold.

Method: a mixture of two normal densities of one width; which of them a night is from depends on the
night before (a switching regime: Hamilton, Econometrica, 1989). The modes are where the points
split best into two groups, and then as expectation-maximisation finds them (Dempster, Laird and
Rubin, 1977). A kernel knows only what lies beside each point: where there are two modes, a mode
tells them finer.
From the likelihood is taken what parameters are worth by chance, half of ln(n) each (Schwarz,
Annals of Statistics, 1978), for those that one peak does not have: how far the modes lie apart, how
often the second comes, and how it holds.
Assumptions: distances in units of the floor; the noise depends on the night before at most.
"""

from __future__ import annotations

import math

import numpy as np

from compile_hud.runner.analysis.detection.constants import middle
from compile_hud.runner.analysis.detection.noise_densities import (
    MIN_BANDWIDTH,
    OUTLIER_RANGE,
    OUTLIERS,
    Density,
)

NUM_PARAMETERS = 3
# Fewer points, or a smaller share of them, are outliers and no mode.
MIN_MODE_POINTS = 3
MIN_MODE_SHARE = 0.08
# Points farther than this many sd, and that much of the floor, from the median are outliers, too.
MAX_SD = 3.0
MAX_DISTANCE = 0.3
# Nights that stay or go by chance, which one has seen before any night.
PRIOR_NIGHTS = 2.0
# Modes that were told apart at first hardly move after as many rounds.
NUM_ROUNDS = 4
_OUTLIER = OUTLIERS / OUTLIER_RANGE


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
        moves = known[:-1].T @ known[1:] + PRIOR_NIGHTS * self.shares
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
    is_slow = noise >= points[_best_split(points, least=least)]
    return Chain(noise, belongs=(np.stack([~is_slow, is_slow], axis=1) & is_near[:, None]) * 1.0)


def _best_split(points: np.ndarray, *, least: int) -> int:
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
