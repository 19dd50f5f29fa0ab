"""Measure the contribution of each number of the detector: the score with it halved, doubled,
dropped.

A dropped number has its neutral value (fields.py). Each change of the score is the mean over the
same histories (scores.py) with its standard error, above 0 for a worse detector. Writes one
document.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detector_fit.fields import GROUPS
from benchmarks.detector_fit.scores import SEED, Score
from benchmarks.startup import RESULTS, describe_machine
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG

# 1: first version.
SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The mean change of the cost of a history, and its standard error."""

    mean: float
    error: float

    @property
    def is_loss(self) -> bool:
        """Return whether the cost grows beyond chance, by two standard errors."""
        return self.mean > 0 and self.mean >= 2 * self.error

    def to_json(self) -> dict[str, float]:
        return {"loss": round(self.mean, 4), "error": round(self.error, 4)}


def loss_of(name: str, value: Any, *, score: Score, base: np.ndarray, num_each: int) -> Loss:
    """Return the change of the costs if the field `name` is `value`; `base` are the costs without
    it.
    """
    config = dataclasses.replace(DEFAULT_CONFIG, **{name: value})
    changes = score(config, num_each) - base
    return Loss(mean=float(changes.mean()), error=float(changes.std()) / math.sqrt(changes.size))


def scaled(value: Any, factor: float) -> Any:
    """Return a field's value times `factor`, counts rounded and at least 2."""
    if isinstance(value, tuple):
        return tuple(scaled(item, factor) for item in value)
    return max(2, round(value * factor)) if isinstance(value, int) else value * factor


def measure(num_each: int) -> dict[str, Any]:
    """Return the document, with `num_each` histories of each kind."""
    fields: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for score, neutral_values in GROUPS:
        base = score(DEFAULT_CONFIG, num_each)
        scores[score.__name__] = round(float(base.mean()), 4)
        for name, neutral in neutral_values.items():
            value = getattr(DEFAULT_CONFIG, name)
            tries = {"halved": scaled(value, 0.5), "doubled": scaled(value, 2.0)}
            if neutral is not None:
                tries["dropped"] = neutral
            fields[name] = {"score": score.__name__, "value": value} | {
                kind: loss_of(name, other, score=score, base=base, num_each=num_each).to_json()
                for kind, other in tries.items()
                if other != value
            }
            print(name, json.dumps(fields[name]), flush=True)
    return {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": describe_machine(),
        "seed": SEED,
        "num_histories": num_each,
        "costs": scores,
        "fields": fields,
    }


def main() -> None:
    """Measure and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=90, help="of each kind")
    parser.add_argument("--output", type=Path, default=RESULTS / "detector_fit.json")
    arguments = parser.parse_args()
    document = measure(arguments.histories)
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
