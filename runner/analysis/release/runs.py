"""Find the two runs of a release among all runs, with the rules of their judgement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import Run
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE

# The launches of a case on each side: at its first look, and at most.
MIN_LAUNCHES, MAX_LAUNCHES = 4, 40
_TRIGGER = re.compile(
    r"release (?P<baseline>.+?) -> (?P<candidate>.+)"
    r" \(floor (?P<floor_pct>\d+(?:\.\d+)?) %, (?P<max_launches>\d+) launch(?:es)?\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """The toolchains of a release, the floor (0.05 is 5 %), and the launches a side at most.

    Both runs have them as their trigger, so that each reader judges alike.
    """

    baseline: str
    candidate: str
    fail_above: float = DEFAULT_FAIL_ABOVE
    max_launches: int = MAX_LAUNCHES

    @property
    def trigger(self) -> str:
        """Return the trigger of both runs."""
        return (
            f"release {self.baseline} -> {self.candidate}"
            f" (floor {100 * self.fail_above:.10g} %, {counted(self.max_launches, 'launch')})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRuns:
    """The runs of both toolchains, whose launches alternated."""

    baseline: Run
    candidate: Run
    rules: ReleaseRules


def rules_of(run: Run) -> ReleaseRules | None:
    """Return the rules of the release that `run` is a side of, None for another run."""
    match = _TRIGGER.fullmatch(run.trigger)
    if match is None:
        return None
    return ReleaseRules(
        baseline=match["baseline"],
        candidate=match["candidate"],
        fail_above=float(match["floor_pct"]) / 100,
        max_launches=max(MIN_LAUNCHES, int(match["max_launches"])),
    )


def find_releases(runs: Sequence[Run]) -> list[ReleaseRuns]:
    """Return the releases among `runs`, the newest first."""
    ordered = sorted(runs, key=lambda run: (run.started_at, run.id), reverse=True)
    ours = [(run, rules) for run in ordered if (rules := rules_of(run)) is not None]
    return [
        ReleaseRuns(baseline=baseline, candidate=candidate, rules=rules)
        for candidate, rules in ours
        if candidate.toolchain == rules.candidate
        if (baseline := _baseline(candidate, [run for run, _ in ours], toolchain=rules.baseline))
    ]


def _baseline(candidate: Run, runs: Sequence[Run], *, toolchain: str) -> Run | None:
    """Return the baseline of the same release, which starts just before its candidate."""
    fitting = (
        run
        for run in runs
        if run.toolchain == toolchain
        and (run.trigger, run.machine) == (candidate.trigger, candidate.machine)
        and run.started_at <= candidate.started_at
    )
    return next(fitting, None)
