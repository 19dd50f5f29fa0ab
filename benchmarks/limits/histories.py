"""Synthetic histories of nights with known events.

Noise of 0.5, 1 or 2 % about a level of 1 has one of three shapes:

- normal;
- heavy-tailed: Student's t with 3 degrees of freedom, and 4 % of the nights 5 to 30 % slower still;
- two modes: 30 % of the nights are slow, each by itself or repeating the previous night with a
  probability of 0.6. Of all nights, 2 % are slower still.

From a night between the 25th and the 70th on, one of the events of `Event` happens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

NUM_NIGHTS = 90
FIRST, LAST = 25, 70
# The first nights establish the level.
FIRST_NIGHT = 10
SPREADS = (0.005, 0.01, 0.02)
# Noise with two modes: the share of slow nights, and the probability that a night repeats the mode
# of the previous one.
SLOW_SHARE, STAYS = 0.3, (0.0, 0.6)
# Shares of the sd: the scatter within each mode, and the distance between the two.
WITHIN = 0.4
BETWEEN = math.sqrt((1 - WITHIN**2) / (SLOW_SHARE * (1 - SLOW_SHARE)))
SLOWER = (0.05, 0.30)


class Shape(StrEnum):
    """The distribution of noise."""

    NORMAL = "normal"
    HEAVY = "heavy-tailed"
    MODES = "two modes"


class Event(StrEnum):
    """The event of a history."""

    LASTING = "a step among missing nights"
    PASSING = "a step that comes back after one or two weeks"
    RELAPSE = "a step after an improvement"
    BLIP = "a blip of two nights"
    SMALL = "a step of 2 %"
    RAMP = "a ramp of 6 % in two months"
    WIDER = "noise that doubles"
    MODE = "a new mode in one night of five"


OUTLIERS = {Shape.NORMAL: 0.0, Shape.HEAVY: 0.04, Shape.MODES: 0.02}
# The rise of the level, for good or for a while. The first three are to be detected.
RISES = {
    Event.LASTING: 0.08,
    Event.PASSING: 0.08,
    Event.RELAPSE: 0.06,
    Event.BLIP: 0.10,
    Event.SMALL: 0.02,
    Event.MODE: 0.06,
}
STEPS = (Event.LASTING, Event.PASSING, Event.RELAPSE)
BLIP_NIGHTS = 2
PASSING_NIGHTS = range(7, 16)
MODE_SHARE, MISSING_SHARE = 0.2, 0.25
# The size of an improvement, and the number of nights before the relapse.
IMPROVED, IMPROVED_NIGHTS = 0.92, 17
RAMP = 1 + 0.06 * np.clip((np.arange(NUM_NIGHTS) - 15) / 60, 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Nights, NaN for a missing one, and their components.

    `onset` is the first night of the step, None without one. `improved` is the factor of the level
    by an improvement, night by night.
    """

    event: Event
    shape: Shape
    spread: float
    values: np.ndarray
    onset: int | None
    improved: np.ndarray


def draw(event: Event, number: int, *, seed: int) -> History:
    """Return history `number` of those with `event`: spreads and shapes take turns."""
    rng = np.random.default_rng([seed, list(Event).index(event), number])
    spread = SPREADS[number % len(SPREADS)]
    shape = list(Shape)[number // len(SPREADS) % len(Shape)]
    noise = draw_noise(shape, spread, rng=rng)
    first = int(rng.integers(FIRST, LAST))
    is_after = np.arange(NUM_NIGHTS) >= first
    improved = np.ones(NUM_NIGHTS)
    if event is Event.LASTING:
        noise[rng.random(NUM_NIGHTS) < MISSING_SHARE] = np.nan
    elif event is Event.WIDER:
        noise[is_after] = 1 + 2 * (noise[is_after] - 1)
    elif event is Event.RELAPSE:
        improved[first - IMPROVED_NIGHTS :] = IMPROVED
    return History(
        event=event,
        shape=shape,
        spread=spread,
        values=_level(event, first, is_after=is_after, rng=rng) * improved * noise,
        onset=first if event in STEPS else None,
        improved=improved,
    )


def _level(
    event: Event, first: int, *, is_after: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    if event is Event.RAMP:
        return RAMP
    is_up = is_after.copy()
    if event is Event.PASSING:
        is_up[first + int(rng.choice(PASSING_NIGHTS)) :] = False
    elif event is Event.BLIP:
        is_up[first + BLIP_NIGHTS :] = False
    elif event is Event.MODE:
        is_up &= rng.random(NUM_NIGHTS) < MODE_SHARE
    return 1 + RISES.get(event, 0.0) * is_up


def draw_noise(shape: Shape, spread: float, *, rng: np.random.Generator) -> np.ndarray:
    """Return NUM_NIGHTS values about 1 with noise of `shape`."""
    if shape is Shape.NORMAL:
        noise = rng.standard_normal(NUM_NIGHTS)
    elif shape is Shape.HEAVY:
        noise = rng.standard_t(3, NUM_NIGHTS) / math.sqrt(3)
    else:
        is_slow = _slow_nights(rng)
        noise = BETWEEN * (is_slow - SLOW_SHARE) + WITHIN * rng.standard_normal(NUM_NIGHTS)
    is_outlier = rng.random(NUM_NIGHTS) < OUTLIERS[shape]
    slower = rng.uniform(*SLOWER, NUM_NIGHTS)
    return np.asarray((1 + spread * noise) * (1 + slower * is_outlier))


def _slow_nights(rng: np.random.Generator) -> np.ndarray:
    stays = rng.random(NUM_NIGHTS) < rng.choice(STAYS)
    is_slow = rng.random(NUM_NIGHTS) < SLOW_SHARE
    for night in range(1, NUM_NIGHTS):
        if stays[night]:
            is_slow[night] = is_slow[night - 1]
    return is_slow
