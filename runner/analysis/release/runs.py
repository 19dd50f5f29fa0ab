"""Find the runs of a release among all runs, with the rules of their judgement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case, Run, RunState
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

    Every run has them as its trigger, so that each reader judges alike.
    """

    baseline: str
    candidate: str
    fail_above: float = DEFAULT_FAIL_ABOVE
    max_launches: int = MAX_LAUNCHES

    @property
    def trigger(self) -> str:
        """Return the trigger of the runs."""
        return (
            f"release {self.baseline} -> {self.candidate}"
            f" (floor {100 * self.fail_above:.10g} %, {counted(self.max_launches, 'launch')})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePair:
    """The runs of both toolchains on one machine, whose launches alternated."""

    baseline: Run
    candidate: Run

    @property
    def machine(self) -> str:
        """Return the name of the machine."""
        return self.candidate.machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRuns:
    """The runs of a release: a pair for each machine, sorted by its name.

    `baseline` and `candidate` are those of the first machine.
    """

    pairs: tuple[MachinePair, ...]
    rules: ReleaseRules

    @property
    def baseline(self) -> Run:
        """Return the baseline of the first machine."""
        return self.pairs[0].baseline

    @property
    def candidate(self) -> Run:
        """Return the candidate of the first machine, which identifies the release."""
        return self.pairs[0].candidate

    def has_candidate(self, run_id: str) -> bool:
        """Return whether a run is the candidate of one of the machines."""
        return any(pair.candidate.id == run_id for pair in self.pairs)

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the names of the machines."""
        return tuple(pair.machine for pair in self.pairs)

    @property
    def state(self) -> RunState:
        """Return the state of the release; one machine that was stopped left cases."""
        return state_of(pair.candidate for pair in self.pairs)


def state_of(runs: Iterable[Run]) -> RunState:
    """Return the state that the runs of one plan have together."""
    states = {run.state for run in runs}
    ordered = (RunState.RUNNING, RunState.INTERRUPTED, RunState.FINISHED)
    return next(state for state in ordered if state in states)


def measured_cases(runs: Iterable[Run]) -> list[Case]:
    """Return the cases in the plans of one side, each once, without the reference cases."""
    return list(dict.fromkeys(case for run in runs for case in run.plan if not case.is_reference))


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
    """Return the releases among `runs`, the newest first.

    The machines of a cluster that share a release begin at one moment.
    """
    ordered = sorted(runs, key=lambda run: (run.started_at, run.id), reverse=True)
    ours = [(run, rules) for run in ordered if (rules := rules_of(run)) is not None]
    pairs: dict[tuple[str, datetime], list[MachinePair]] = {}
    for candidate, rules in ours:
        if candidate.toolchain != rules.candidate:
            continue
        baseline = _baseline(candidate, [run for run, _ in ours], toolchain=rules.baseline)
        if baseline is not None:
            pair = MachinePair(baseline=baseline, candidate=candidate)
            pairs.setdefault((candidate.trigger, candidate.started_at), []).append(pair)
    return [
        ReleaseRuns(
            pairs=tuple(sorted(items, key=lambda pair: (pair.machine, pair.candidate.id))),
            rules=next(rules for run, rules in ours if run.trigger == trigger),
        )
        for (trigger, _), items in pairs.items()
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
