"""The choice of the next cases of a campaign: those worth most per second.

The worth of a case is its chunk's `worth`. CLAIM_WORTH multiplies it if a published figure waits
for it, NEW_WORTH if no result of it exists on this device. Otherwise it falls with the youth of its
evidence. Its seconds are learnt from earlier measurements.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchmarks.gpu.chunks import Work
from compile_hud.db.records.results import Case

# Claims come first: ten times what separates the chunks and the costs of most cases.
CLAIM_WORTH = 40.0
NEW_WORTH = 4.0
# Every compiled case measures eager too; eager's own case adds memory, kernels and other dtypes.
EAGER_WORTH = 0.4
# Evidence of this age is worth renewing as much as new evidence is.
OLD_DAYS = 120.0
TUNED = frozenset({"max-autotune", "max-autotune-no-cudagraphs"})
# Initial seconds, before any measurement: for building and compiling with others, and for sampling
# by itself.
_PREPARE_S = {"eager": 8.0, "light": 30.0, "tuned": 120.0}
_SAMPLE_S = 4.0
# Models whose graphs are larger than most, by that factor.
_SLOW_MODELS = {"unet": 5.0, "swin": 2.0, "whisper": 2.0, "moe": 2.0}
# Other launches may work during these steps of a launch.
_SHARED_STEPS = ("fingerprint", "build", "eager oracle", "compile", "accuracy")
_WAITING_STEP = "turn"
# Gigabytes of device memory that a launch uses after its oracle, for models with more than most.
_MEMORY_GB = {
    # The oracle needs more than the 79 GiB of an H100.
    ("moe", "training"): 88.0,
    ("moe", "inference"): 40.0,
    ("llama", "inference"): 10.0,
    ("llama_decode", "inference"): 10.0,
    ("bert", "inference"): 4.0,
    ("roberta", "inference"): 5.0,
    ("gpt2", "inference"): 5.0,
    ("qwen", "inference"): 5.0,
    ("unet", "inference"): 10.0,
    ("bert", "training"): 12.0,
    ("gpt2", "training"): 12.0,
}
_LONG_TEXT_GB = 16.0
_DEFAULT_MEMORY_GB = {"inference": 2.5, "training": 7.0}


def kind_of(case: Case) -> str:
    """Return `tuned` if `case` autotunes, which takes longer, else `light`."""
    return "tuned" if case.variant in TUNED else "light"


def memory_gb(case: Case) -> float:
    """Return a bound of the device memory that a launch of `case` needs."""
    phase = str(case.phase)
    known = _MEMORY_GB.get((case.model, phase), _DEFAULT_MEMORY_GB[phase])
    if case.model == "bert" and case.shape.startswith("full"):
        return _LONG_TEXT_GB if case.shape.endswith("-b32-l512") else known
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of one launch: while others compile, and alone on the device."""

    prepare_s: float
    sample_s: float


@dataclass(slots=True)
class Costs:
    """The costs of launches, learnt from results: of the same case, else of like ones."""

    _seen: dict[tuple[str, ...], list[Cost]] = field(default_factory=dict)

    def learn(self, case: Case, steps: Sequence[Mapping[str, Any]]) -> None:
        """Learn from the steps of the first launch of `case`, if it has any."""
        if not steps:
            return
        spans = {str(item["name"]): float(item["end_s"]) - float(item["start_s"]) for item in steps}
        shared_s = sum(spans.get(name, 0.0) for name in _SHARED_STEPS)
        alone_s = sum(s for name, s in spans.items() if name not in _SHARED_STEPS)
        cost = Cost(prepare_s=shared_s, sample_s=alone_s - spans.get(_WAITING_STEP, 0.0))
        for key in _keys(case):
            self._seen.setdefault(key, []).append(cost)

    def of(self, work: Work) -> Cost:
        """Return the expected cost of a launch of `work`."""
        case = work.case
        for key in _keys(case):
            # Another model teaches nothing about one that is known to be slow.
            is_like = case.model in key or case.model not in _SLOW_MODELS
            if (seen := self._seen.get(key)) and is_like:
                return Cost(
                    prepare_s=statistics.median(item.prepare_s for item in seen),
                    sample_s=statistics.median(item.sample_s for item in seen),
                )
        kind = "eager" if case.variant == "eager" else kind_of(case)
        slow = _SLOW_MODELS.get(case.model, 1.0) * (1.5 if case.phase == "training" else 1.0)
        sample_s = _SAMPLE_S if work.settings.energy else _SAMPLE_S / 3
        return Cost(prepare_s=_PREPARE_S[kind] * slow, sample_s=sample_s)


def _keys(case: Case) -> tuple[tuple[str, ...], ...]:
    phase = str(case.phase)
    return (
        (case.model, phase, case.shape, str(case.dtype), case.variant),
        (case.model, phase, case.variant),
        (case.model, phase, "eager" if case.variant == "eager" else kind_of(case)),
        (phase, case.variant),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The times of the last results on this device, by case key, and the cases that open claims
    need.
    """

    measured_at: Mapping[str, datetime] = field(default_factory=dict)
    claimed: Collection[str] = ()


def worth(work: Work, *, evidence: Evidence, now: datetime) -> float:
    """Return the worth of measuring `work` now."""
    value = work.chunk.worth * (EAGER_WORTH if work.case.variant == "eager" else 1.0)
    at = evidence.measured_at.get(work.case.key)
    if at is None:
        value *= NEW_WORTH
        return value * CLAIM_WORTH if work.case.key in evidence.claimed else value
    return value * min(1.0, (now - at).total_seconds() / 86400.0 / OLD_DAYS)


def ranked(
    works: Iterable[Work], *, evidence: Evidence, costs: Costs, lanes: int, now: datetime
) -> list[Work]:
    """Return `works` by their worth per second of the device, the best first.

    A second in which `lanes` cases are compiled counts for each of them as its share.
    """

    def value(work: Work) -> float:
        cost = costs.of(work)
        num = work.settings.num_launches
        seconds = cost.prepare_s / lanes + cost.sample_s * num
        return worth(work, evidence=evidence, now=now) / max(seconds, 0.1)

    return sorted(works, key=value, reverse=True)


def next_wave(
    ranking: Sequence[Work],
    *,
    costs: Costs,
    lanes: int,
    memory_limit_gb: float,
    left_s: float,
    is_alone: bool = True,
) -> list[Work]:
    """Return the works of the next wave, none if none fits into `left_s`.

    The slowest to compile bounds the wave. `memory_limit_gb` limits their memory together; a single
    one may exceed it if it `is_alone`.
    """
    if lanes <= 0:
        return []
    wave: list[Work] = []
    total_gb = prepare_s = sample_s = 0.0
    for work in ranking:
        cost, num = costs.of(work), work.settings.num_launches
        new_prepare_s = max(prepare_s, cost.prepare_s)
        new_sample_s = sample_s + cost.sample_s * num
        fits = new_prepare_s + new_sample_s <= left_s
        fits = fits and (
            (is_alone and not wave) or total_gb + memory_gb(work.case) <= memory_limit_gb
        )
        if not fits:
            continue
        wave.append(work)
        total_gb += memory_gb(work.case)
        prepare_s, sample_s = new_prepare_s, new_sample_s
        if len(wave) >= lanes:
            break
    return wave
