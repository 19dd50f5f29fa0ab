"""Find the two runs of a release among all runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import Run

_TRIGGER = re.compile(r"release (\S+) -> (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRuns:
    """The runs of both toolchains, whose launches alternated."""

    baseline: Run
    candidate: Run


def release_trigger(baseline: str, candidate: str) -> str:
    """Return the trigger of both runs of a release from one toolchain to another."""
    return f"release {baseline} -> {candidate}"


def find_releases(runs: Sequence[Run]) -> list[ReleaseRuns]:
    """Return the releases among `runs`, the newest first."""
    ordered = sorted(runs, key=lambda run: (run.started_at, run.id), reverse=True)
    ours = [(run, match) for run in ordered if (match := _TRIGGER.fullmatch(run.trigger))]
    return [
        ReleaseRuns(baseline=baseline, candidate=candidate)
        for candidate, match in ours
        if candidate.toolchain == match[2]
        if (baseline := _baseline(candidate, [run for run, _ in ours], toolchain=match[1]))
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
