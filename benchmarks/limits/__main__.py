"""Compare the detector with an observer that knows everything but the events.

Both see the same synthetic histories (histories.py), night by night. The observer (observer.py)
alerts when the probability that a step has begun exceeds a limit. Each limit is another balance
between new modes that stay silent and nights until a step is reported. Writes one document with the
rates of the observer at several limits, and those of the detector.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limits.histories import FIRST_NIGHT, NUM_NIGHTS, Event, History, draw
from benchmarks.limits.observer import chances_of_step, probabilities_of
from benchmarks.precision.rates import wilson_interval
from benchmarks.startup import RESULTS, describe_machine
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detector import find_steps

# 1: first version.
SCHEMA_VERSION = 1
SEED = 1
LIMITS = (0.8, 0.9, 0.95, 0.97, 0.975, 0.98, 0.985, 0.99, 0.998)
# A report later than a month does not count.
LAST_DELAY = 30
# Alerts whose first nights lie no farther apart are one.
SAME_NIGHTS = 5
NIGHTS_PER_YEAR = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Replay of a history: nights until the step was reported, and false alarms."""

    event: Event
    has_step: bool
    delay: int | None
    num_false: int


def observed(history: History, *, chances: np.ndarray, limit: float) -> Replay:
    """Return the replay with an alert on the first night with a chance above `limit`."""
    is_night = ~np.isnan(history.values) & (np.arange(NUM_NIGHTS) >= FIRST_NIGHT)
    nights = np.flatnonzero(is_night & (chances > limit))
    return _replay(history, alerts=[(int(night), None) for night in nights[:1]])


def judged(history: History, *, config: DetectorConfig = DEFAULT_CONFIG) -> Replay:
    """Return the replay of the detector, which sees each night only with earlier ones."""
    places = np.flatnonzero(~np.isnan(history.values))
    values = history.values[places]
    alerts: list[tuple[int, int | None]] = []
    for num_nights in range(FIRST_NIGHT + 1, values.size + 1):
        for index, change in find_steps(values[:num_nights], config=config):
            first = int(places[index])
            is_new = all(abs(first - (detected or 0)) > SAME_NIGHTS for _, detected in alerts)
            if change > 0 and is_new:
                alerts.append((int(places[num_nights - 1]), first))
    return _replay(history, alerts=alerts)


def _replay(history: History, *, alerts: Sequence[tuple[int, int | None]]) -> Replay:
    delays = [_delay(history.onset, night, first) for night, first in alerts]
    delays_known = [delay for delay in delays if delay is not None]
    return Replay(
        event=history.event,
        has_step=history.onset is not None,
        delay=delays_known[0] if delays_known else None,
        num_false=len(delays) - len(delays_known),
    )


def _delay(onset: int | None, night: int, first: int | None) -> int | None:
    if onset is None or (first is not None and abs(first - onset) > SAME_NIGHTS):
        return None
    return night - onset if 0 <= night - onset <= LAST_DELAY else None


def summarise(replays: Sequence[Replay]) -> dict[str, Any]:
    """Return the rates of all replays, those of every event, and the delays of detected steps."""
    delays = sorted(replay.delay for replay in replays if replay.delay is not None)
    num_steps = sum(replay.has_step for replay in replays)
    num_false = sum(replay.num_false for replay in replays)
    years = len(replays) * (NUM_NIGHTS - FIRST_NIGHT) / NIGHTS_PER_YEAR
    modes = [replay.num_false == 0 for replay in replays if replay.event is Event.MODE]
    return {
        "new_modes_silent": round(sum(modes) / len(modes), 4),
        "new_modes_interval": [round(end, 4) for end in wilson_interval(sum(modes), len(modes))],
        "delay_median": delays[len(delays) // 2],
        "delay_90": delays[int(0.9 * len(delays))],
        "told_within_2": round(sum(delay <= 2 for delay in delays) / len(delays), 4),
        "found": round(len(delays) / num_steps, 4),
        "f1": round(2 * len(delays) / (len(delays) + num_false + num_steps), 4),
        "false_alarms_per_year": round(num_false / years, 4),
        "right": {event.value: _share_right(replays, event) for event in Event},
    }


def _share_right(replays: Sequence[Replay], event: Event) -> float:
    chosen = [replay for replay in replays if replay.event is event]
    right = [r.delay is not None if r.has_step else r.num_false == 0 for r in chosen]
    return round(sum(right) / len(right), 4)


def measure(num_histories: int) -> dict[str, Any]:
    """Return the document: `num_histories` of each event, for the detector and the observer."""
    histories = [draw(event, i, seed=SEED) for event in Event for i in range(num_histories)]
    chances = [
        chances_of_step(probabilities_of(history), shape=history.shape, spread=history.spread)
        for history in histories
    ]
    pairs = list(zip(histories, chances, strict=True))
    return {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": describe_machine(),
        "seed": SEED,
        "num_histories": num_histories,
        "judge": summarise([judged(history) for history in histories]),
        "observer": {
            f"{limit:g}": summarise(
                [observed(history, chances=own, limit=limit) for history, own in pairs]
            )
            for limit in LIMITS
        },
    }


def main() -> None:
    """Measure and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=400, help="of each event")
    parser.add_argument("--output", type=Path, default=RESULTS / "limits.json")
    arguments = parser.parse_args()
    document = measure(arguments.histories)
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, result in (("judge", document["judge"]), *document["observer"].items()):
        print(name, json.dumps({key: result[key] for key in list(result)[:-1]}))


if __name__ == "__main__":
    main()
