"""An observer that knows everything about a history but its event and the time of it.

It knows the level, the distribution of the noise, an improvement when it comes, the possible events
and their frequency. It does not know whether the next nights belong to a step or to something else:
every size is as likely for one as for the other. Night by night it computes the probability, by
Bayes' theorem, that a step has begun. Noise with two modes is a hidden Markov chain, followed by
the forward algorithm (Baum and Petrie, Annals of Mathematical Statistics, 1966). On average over
such histories, no rule with less knowledge can do better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.limits.histories import (
    BETWEEN,
    BLIP_NIGHTS,
    FIRST,
    LAST,
    MODE_SHARE,
    NUM_NIGHTS,
    OUTLIERS,
    PASSING_NIGHTS,
    RAMP,
    RISES,
    SLOW_SHARE,
    SLOWER,
    STAYS,
    STEPS,
    WITHIN,
    Event,
    History,
    Shape,
)

# The possible rises of steps, blips and new modes.
SIZES = np.array([0.05, 0.06, 0.08, 0.10])
# The possible states of a night: ordinary; up by a size; in a mode of a size or not; and so on.
UP = 1
MODE = UP + SIZES.size
SMALL, WIDER, RAMPED = range(MODE + SIZES.size, MODE + SIZES.size + 3)
# Densities are tabulated this finely.
GRID = np.linspace(-0.6, 1.0, 32_001)
# A night that no story explains does not rule out all stories.
LEAST_DENSITY = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Stories:
    """All possible stories, one column each: the state of every night.

    `chances` are those before the first night. `onsets` are the first nights of the steps,
    NUM_NIGHTS for stories without a step.
    """

    nights: np.ndarray
    chances: np.ndarray
    onsets: np.ndarray


def probabilities_of(history: History) -> np.ndarray:
    """Return the values that the observer uses: without an improvement, which it knows."""
    return np.asarray(history.values / history.improved)


@cache
def stories() -> Stories:
    """Return all stories: each event is as likely as another, and so is each first night."""
    events: list[tuple[np.ndarray, float, int]] = []

    def tell(event: Event, like: int, *, nights: range, chance: float) -> None:
        night = np.zeros(NUM_NIGHTS, dtype=np.int16)
        night[nights.start : nights.stop] = like
        events.append((night, chance, nights.start if event in STEPS else NUM_NIGHTS))

    tell(Event.RAMP, RAMPED, nights=range(NUM_NIGHTS), chance=1.0)
    for first in range(FIRST, LAST):
        lasting = range(first, NUM_NIGHTS)
        chance = 1 / (LAST - FIRST)
        tell(Event.SMALL, SMALL, nights=lasting, chance=chance)
        tell(Event.WIDER, WIDER, nights=lasting, chance=chance)
        for index in range(SIZES.size):
            of_size = chance / SIZES.size
            tell(Event.MODE, MODE + index, nights=lasting, chance=of_size)
            blip = range(first, first + BLIP_NIGHTS)
            tell(Event.BLIP, UP + index, nights=blip, chance=of_size)
            tell(Event.LASTING, UP + index, nights=lasting, chance=of_size)
            tell(Event.RELAPSE, UP + index, nights=lasting, chance=of_size)
            for length in PASSING_NIGHTS:
                passing = range(first, min(NUM_NIGHTS, first + length))
                each = of_size / len(PASSING_NIGHTS)
                tell(Event.PASSING, UP + index, nights=passing, chance=each)
    nights, chances, onsets = zip(*events, strict=True)
    return Stories(
        nights=np.array(nights).T,
        chances=np.array(chances) / len(Event),
        onsets=np.array(onsets),
    )


@cache
def densities(shape: Shape, spread: float) -> np.ndarray:
    """Return the density of noise over GRID, one row for each of its modes."""
    if shape is Shape.MODES:
        means = spread * BETWEEN * (np.arange(2) - SLOW_SHARE)
        clean = np.array([_normal(GRID - mean, sd=WITHIN * spread) for mean in means])
    elif shape is Shape.HEAVY:
        scale = spread / math.sqrt(3)
        clean = 2 / (math.pi * math.sqrt(3) * scale) / (1 + (GRID / scale) ** 2 / 3)[None] ** 2
    else:
        clean = _normal(GRID, sd=spread)[None]
    if not OUTLIERS[shape]:
        return clean
    edges = np.linspace(*SLOWER, 201)
    factors = 1 + (edges[1:] + edges[:-1]) / 2
    slower = [np.mean([_at((1 + GRID) / by, row) / by for by in factors], axis=0) for row in clean]
    return np.asarray((1 - OUTLIERS[shape]) * clean + OUTLIERS[shape] * np.array(slower))


def chances_of_step(values: np.ndarray, *, shape: Shape, spread: float) -> np.ndarray:
    """Return for each night the probability that a step has begun by then.

    `values` are nights about a level of 1, NaN for a missing one, whose probability is 0.
    """
    events, table = stories(), densities(shape, spread)
    modes = np.array([1 - SLOW_SHARE, SLOW_SHARE]) if table.shape[0] == 2 else np.ones(1)
    stays = np.array(STAYS) if table.shape[0] == 2 else np.zeros(1)
    # The probability of each persistence, tonight's mode and story, given the earlier nights.
    belief = modes[:, None] * events.chances / stays.size
    belief = np.repeat(belief[None], stays.size, axis=0)
    steps = np.zeros(NUM_NIGHTS)
    for night, value in enumerate(values):
        if not math.isnan(value):
            belief = belief * _of_night(value, night, table)[:, events.nights[night]]
            belief /= belief.sum()
            of_stories = belief.sum(axis=(0, 1))
            steps[night] = of_stories[events.onsets <= night].sum()
        anew = modes[:, None] * belief.sum(axis=1, keepdims=True)
        belief = stays[:, None, None] * belief + (1 - stays[:, None, None]) * anew
    return steps


def _of_night(value: float, night: int, table: np.ndarray) -> np.ndarray:
    """Return the density of `value`: one row a mode of the noise, one column a kind of night."""
    up = 1 + SIZES
    rest = 1 + RISES[Event.SMALL], RAMP[night]

    def after(factors: np.ndarray) -> np.ndarray:
        return np.array([_at(value / factors, row) / factors for row in table])

    ordinary, slow = after(np.ones(1)), after(up)
    small, ramped = np.hsplit(after(np.array(rest)), 2)
    wider = np.array([_at(np.array([1 + (value - 1) / 2]), row) / 2 for row in table])
    mixed = (1 - MODE_SHARE) * ordinary + MODE_SHARE * slow
    return np.hstack([ordinary, slow, mixed, small, wider, ramped]) + LEAST_DENSITY


def _at(values: np.ndarray, row: np.ndarray) -> np.ndarray:
    return np.interp(values - 1, GRID, row, left=0.0, right=0.0)


def _normal(distances: np.ndarray, *, sd: float) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * (distances / sd) ** 2) / (sd * math.sqrt(2 * math.pi)))
