"""Score the detector on synthetic histories: one cost a history, less is better.

Steps: the nights until a step is reported (LAST_DELAY + 1 if never), plus FALSE_ALARM_NIGHTS for
each false alarm. Drifts, noise changes and p-values: 1 for each wrong answer. Each history is drawn
from its own seed, so that two configs are compared in pairs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from benchmarks.limits.__main__ import LAST_DELAY, judged
from benchmarks.limits.histories import NUM_NIGHTS, SPREADS, Event, History, Shape, draw, draw_noise
from compile_hud.runner.analysis.detection.config import DetectorConfig
from compile_hud.runner.analysis.detection.drift import find_drifts
from compile_hud.runner.analysis.detection.false_discovery import step_p_value
from compile_hud.runner.analysis.detection.variance import find_noise_changes

SEED = 3
# The cost of a false alarm for a reader, in nights of delay: the same as that of a missed step.
FALSE_ALARM_NIGHTS = LAST_DELAY + 1
FLOOR = 0.05
# A large step in a young series comes after so many nights.
YOUNG_NIGHTS, LARGE_RISE = 14, 0.3

Score = Callable[[DetectorConfig, int], np.ndarray]


def step_costs(config: DetectorConfig, num_each: int) -> np.ndarray:
    """Return the cost of each of `num_each` histories an event, and of as many young ones."""
    histories = [draw(event, i, seed=SEED) for event in Event for i in range(num_each)]
    histories += [_young(draw(Event.LASTING, i, seed=SEED + 1)) for i in range(num_each)]
    return np.array([_step_cost(history, config) for history in histories], dtype=float)


def _step_cost(history: History, config: DetectorConfig) -> float:
    replay = judged(history, config=config)
    cost = FALSE_ALARM_NIGHTS * replay.num_false
    if replay.has_step:
        cost += LAST_DELAY + 1 if replay.delay is None else replay.delay
    return cost


def _young(history: History) -> History:
    """Return `history` with a large step, YOUNG_NIGHTS after its first night."""
    assert history.onset is not None
    values = history.values.copy()
    values[: history.onset - YOUNG_NIGHTS] = np.nan
    values[history.onset :] *= 1 + LARGE_RISE
    return dataclasses.replace(history, values=values)


def drift_costs(config: DetectorConfig, num_each: int) -> np.ndarray:
    """Return 1 for each wrong answer about slow ramps, seasons, steps and level histories."""
    nights = np.arange(2 * NUM_NIGHTS)
    levels = [
        (1 + 0.12 * np.clip((nights - 40) / 80, 0, 1), True),
        (1 + 0.08 * np.clip((nights - 40) / 15, 0, 1), True),
        (1 + 0.04 * np.sin(2 * np.pi * nights / 30), False),
        (1 + 0.08 * (nights >= 90), False),
        (np.ones(nights.size), False),
    ]
    wrong = []
    for kind, (level, has_drift) in enumerate(levels):
        for number in range(num_each):
            values = level * _long_noise(kind, number)
            breaks = [90] if kind == 3 else []
            num_drifts = len(find_drifts(values, floor=FLOOR, breaks=breaks, config=config))
            wrong.append((num_drifts > 0) is not has_drift)
    return np.array(wrong, dtype=float)


def noise_costs(config: DetectorConfig, num_each: int) -> np.ndarray:
    """Return 1 for each wrong answer about noise that trebles, and noise that does not change."""
    wrong = []
    for kind, factor in enumerate((3.0, 1.0, 1.0)):
        for number in range(num_each):
            noise = _long_noise(10 + kind, number)
            noise[120:] = 1 + factor * (noise[120:] - 1)
            wrong.append(bool(find_noise_changes(noise, config=config)) is not (factor > 1))
    return np.array(wrong, dtype=float)


def p_value_costs(config: DetectorConfig, num_each: int) -> np.ndarray:
    """Return 1 for each real step that is rejected and each chance step that is accepted.

    A chance step is the point of a level history after which it differs most from before.
    """
    wrong = []
    for number in range(2 * num_each):
        noise, is_real = _long_noise(20, number)[:60], number < num_each
        index = 54 if is_real else _farthest_split(noise)
        values = noise * np.where(np.arange(noise.size) >= index, 1 + is_real * 0.06, 1.0)
        p_value = step_p_value(values[:index], values[index:], config=config)
        wrong.append((p_value <= config.false_discovery_rate) is not is_real)
    return np.array(wrong, dtype=float)


def _farthest_split(noise: np.ndarray) -> int:
    splits = range(noise.size - 21, noise.size - 2)
    return max(splits, key=lambda i: abs(np.median(noise[i:]) - np.median(noise[:i])))


def _long_noise(kind: int, number: int) -> np.ndarray:
    rng = np.random.default_rng([SEED, kind, number])
    shape = list(Shape)[number // len(SPREADS) % len(Shape)]
    spread = SPREADS[number % len(SPREADS)]
    return np.concatenate([draw_noise(shape, spread, rng=rng) for _ in range(2)])
