"""The clusters that are reported of releases with planted regressions.

A release has some 300 cases: 24 models in six families, in inference and training, two or three
dtypes and modes. Twelve regressions have five causes: a family in training, a kernel kind, a dtype
with a mode, a model, and a single case. Each cause is about cases with two or three factors in
common, some of which are spared. Two more regressions are false, at random. Some cases are not
decided. Regressions of a cause share a kernel kind that grew. The kinds of other cases are known in
the first part, and in the second not. In the third part all regressions are at random.

A cluster is as pure as its most frequent cause is; completeness is the share of the pairs of one
cause that are in one cluster. The drawing of causes is ours: real ones may have no common factor.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, describe_machine
from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.release.clusters import (
    JudgedCase,
    RegressionCluster,
    find_clusters,
)
from compile_hud.runner.analysis.release.factors import case_factors
from tests.support.builders import make_case

# 1: first version.
SCHEMA_VERSION = 1
NUM_RELEASES = 300
# Other than those on which the rate of the clusters was chosen.
SEED = 8
GOAL = 0.9
NUM_CASES = 300
# Models by family.
FAMILIES = {"convnet": 7, "encoder": 6, "decoder": 4, "recommender": 3, "diffusion": 2, "mlp": 2}
KINDS = (
    *("attention", "convolution", "copy", "depthwise convolution", "embedding", "gemm", "norm"),
    *("pointwise", "reduction", "softmax"),
)
NUM_KINDS = 3
# The factors of each cause, and others of which some are added until few cases fit.
CAUSES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "family in training": (("family", "training"), ("mode", "dtype")),
    "kernel kind": (("kind",), ("mode", "phase", "dtype", "family")),
    "dtype and mode": (("dtype", "mode"), ("phase", "family")),
    "model": (("model",), ("phase", "mode", "dtype")),
}
SINGLE = "single case"
# Eleven regressions of the causes above, in any order; the twelfth is the single case.
SIZES = ((5, 2, 2, 2), (4, 3, 2, 2), (3, 3, 3, 2))
NUM_FALSE = 2
MAX_NAMES = 3
# At most so many cases fit a cause, for each one that regresses.
MAX_FITTING = 1.5
MAX_TRIES = 5_000
UNDECIDED_SHARE = 0.05
DTYPE_SHARE, MODE_SHARE = 0.3, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cases of a release and the kernel kinds of each, by key."""

    cases: Mapping[str, Case]
    kinds: Mapping[str, Set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Judged cases, and the causes of the regressions by key."""

    cases: Sequence[JudgedCase]
    causes: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class Score:
    """The sums over releases; `shared` is about clusters of two cases or more."""

    num_pure: Counter[str] = field(default_factory=Counter)
    num_regressions: Counter[str] = field(default_factory=Counter)
    num_pairs: Counter[str] = field(default_factory=Counter)
    num_joined: Counter[str] = field(default_factory=Counter)
    num_clusters: list[int] = field(default_factory=list)
    num_planted: list[int] = field(default_factory=list)
    num_with_shared: int = 0


def draw_plan(draw: random.Random) -> Plan:
    """Return a plan in which models have different dtypes and modes, as in real suites."""
    cases, kinds = {}, {}
    families = [family for family, number in FAMILIES.items() for _ in range(number)]
    for number, family in enumerate(families):
        own = draw.sample(KINDS, NUM_KINDS)
        dtypes = ["fp32", "bf16", *(["fp16"] if draw.random() < DTYPE_SHARE else [])]
        modes = ["eager", "default", *(["max-autotune"] if draw.random() < MODE_SHARE else [])]
        for phase, dtype, mode in itertools.product(("inference", "training"), dtypes, modes):
            case = make_case(f"model-{number}", family=family, phase=phase, dtype=dtype, mode=mode)
            cases[case.key] = case
            is_generated = ["fused"] if mode != "eager" else []
            kinds[case.key] = {*own, *is_generated, *(["optimizer"] if phase == "training" else [])}
    keys = draw.sample(sorted(cases), min(NUM_CASES, len(cases)))
    return Plan(cases={key: cases[key] for key in sorted(keys)}, kinds=kinds)


def draw_release(draw: random.Random, *, are_kinds_known: bool, are_planted: bool) -> Release:
    """Return a release with planted causes, or as many regressions at random."""
    plan = draw_plan(draw)
    causes = _planted(plan, draw) if are_planted else {}
    while causes is None:
        plan = draw_plan(draw)
        causes = _planted(plan, draw)
    num_left = sum(SIZES[0]) + 1 + NUM_FALSE - len(causes)
    names = [SINGLE, *(f"false {number}" for number in range(1, num_left))]
    others = draw.sample(sorted(set(plan.cases) - set(causes)), num_left)
    grown = _grown(plan, causes, draw=draw)
    for name, key in zip(names, others, strict=True):
        causes[key] = name
        grown[key] = draw.choice(sorted(plan.kinds[key]))
    cases = []
    for key, case in plan.cases.items():
        if draw.random() < UNDECIDED_SHARE:
            causes.pop(key, None)
            continue
        known = sorted(plan.kinds[key]) if are_kinds_known else ()
        own = [grown[key]] if key in causes else known
        cases.append(
            JudgedCase(
                case=case,
                factors=case_factors(case, grown_kinds=own),
                is_regression=key in causes,
                ratio=1.1 if key in causes else 1.0,
            )
        )
    return Release(cases=cases, causes=causes)


def _planted(plan: Plan, draw: random.Random) -> dict[str, str] | None:
    """Return the cause of each planted regression by its key, None if there is no room for one."""
    index = _index(plan)
    causes: dict[str, str] = {}
    sizes = draw.sample(draw.choice(SIZES), len(CAUSES))
    for cause, size in zip(CAUSES, sizes, strict=True):
        fitting = _fitting(index, cause=cause, size=size, draw=draw)
        if not fitting or set(fitting) & set(causes):
            return None
        causes |= dict.fromkeys(draw.sample(fitting, size), cause)
    return causes


def _index(plan: Plan) -> Mapping[str, Mapping[str, Set[str]]]:
    """Return the keys of the cases by the name and value of their factors."""
    index: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for key, case in plan.cases.items():
        for name in ("family", "phase", "dtype", "mode", "model"):
            index[name][str(getattr(case, name))].add(key)
        for kind in plan.kinds[key] & set(KINDS):
            index["kind"][kind].add(key)
    index["training"]["training"] = index["phase"]["training"]
    return index


def _fitting(
    index: Mapping[str, Mapping[str, Set[str]]], *, cause: str, size: int, draw: random.Random
) -> list[str]:
    """Return the cases that fit a cause, as many as `size` or some more; none if all tries fail."""
    names, others = CAUSES[cause]
    for _ in range(MAX_TRIES):
        number = draw.randint(0, min(len(others), MAX_NAMES - len(names)))
        chosen = [*names, *draw.sample(others, number)]
        fitting = set.intersection(
            *(set(index[name][draw.choice(sorted(index[name]))]) for name in chosen)
        )
        if size <= len(fitting) <= MAX_FITTING * size:
            return sorted(fitting)
    return []


def _grown(plan: Plan, causes: Mapping[str, str], *, draw: random.Random) -> dict[str, str]:
    """Return the kernel kind that grew in each case, the same one for a cause if all have one."""
    grown: dict[str, str] = {}
    for cause in CAUSES:
        keys = [key for key, own in causes.items() if own == cause]
        common = sorted(set.intersection(*(set(plan.kinds[key]) for key in keys)) if keys else ())
        shared = draw.choice(common) if common else None
        grown |= {key: shared or draw.choice(sorted(plan.kinds[key])) for key in keys}
    return grown


def add_release(score: Score, release: Release, *, clusters: Sequence[RegressionCluster]) -> None:
    """Add the answer about one release."""
    cluster_of: dict[str, int] = {}
    has_shared = False
    for number, cluster in enumerate(clusters):
        keys = [item.case.key for item in cluster.cases]
        cluster_of |= dict.fromkeys(keys, number)
        (_, num_pure), *_ = Counter(release.causes[key] for key in keys).most_common(1)
        has_shared = has_shared or len(keys) > 1
        for part in ("all", "shared")[: 1 + (len(keys) > 1)]:
            score.num_pure[part] += num_pure
            score.num_regressions[part] += len(keys)
    keys_of: dict[str, list[str]] = defaultdict(list)
    for key, cause in release.causes.items():
        keys_of[cause].append(key)
    for cause, keys in keys_of.items():
        for first, second in itertools.combinations(keys, 2):
            for part in ("all", cause, f"{len(keys)} regressions"):
                score.num_pairs[part] += 1
                score.num_joined[part] += cluster_of[first] == cluster_of[second]
    score.num_clusters.append(len(clusters))
    score.num_planted.append(len(keys_of))
    score.num_with_shared += has_shared


def summary(score: Score) -> dict[str, Any]:
    """Return the figures of all releases, None where there was nothing to count."""
    return {
        "num_releases": len(score.num_clusters),
        **{
            name: _share(score.num_pure[part], score.num_regressions[part])
            for name, part in (("purity", "all"), ("shared_purity", "shared"))
        },
        "completeness": _share(score.num_joined["all"], score.num_pairs["all"]),
        "completeness_by_cause": {
            part: _share(score.num_joined[part], score.num_pairs[part])
            for part in sorted(set(score.num_pairs) - {"all"})
        },
        "mean_num_clusters": statistics.fmean(score.num_clusters),
        "mean_num_planted": statistics.fmean(score.num_planted),
        "share_of_releases_with_shared": _share(score.num_with_shared, len(score.num_clusters)),
    }


def _share(number: int, total: int) -> float | None:
    return number / total if total else None


def main() -> int:
    """Simulate the releases, print and write the document; return 1 below the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=NUM_RELEASES)
    parser.add_argument("--output", type=Path, default=RESULTS / "release_clusters.json")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "release_clusters",
        "at": datetime.now(timezone.utc).isoformat(),
        "machine": describe_machine(),
        "seed": SEED,
        "goal": GOAL,
        "parts": {},
    }
    parts = {"known kinds": (True, True), "unknown kinds": (False, True), "random": (True, False)}
    for part, (are_kinds_known, are_planted) in parts.items():
        score = Score()
        for number in range(options.releases):
            draw = random.Random(f"{SEED} {part} {number}")
            release = draw_release(draw, are_kinds_known=are_kinds_known, are_planted=are_planted)
            add_release(score, release, clusters=find_clusters(release.cases))
        document["parts"][part] = summary(score)
        print(part, json.dumps(document["parts"][part]))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    purities = [document["parts"][part]["shared_purity"] for part in list(parts)[:2]]
    return 0 if min(purities) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
