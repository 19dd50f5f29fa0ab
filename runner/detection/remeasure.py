"""Measure the cases of a run again: alone, or interleaved with the last good toolchain."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import Case, CaseResult, Run
from compile_hud.runner.analysis.comparison.paired import PairStandard, compare_pair
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.stats.rounds import results_by_case
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.environment import compares, revision
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.execution.paired_launches import (
    IsEnough,
    PairLimits,
    PairResult,
    PairSide,
    measure_pair,
)
from compile_hud.runner.execution.run_plan import recorded_settings, settings_for
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import MeasureSettings, TracePolicy
from compile_hud.runner.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """An opened toolchain: what it is called, its revision and who executes under it."""

    name: str
    revision: str
    executor: Executor


class Bench:
    """Re-measures the cases of `run` with the settings of that run.

    Toolchains are opened on first use and stay open until `close`.
    """

    def __init__(self, run: Run, *, workspace: Workspace) -> None:
        self._run = run
        self._workspace = workspace
        # The allocator history and the compiler's log belong to the run, not to a re-measurement.
        self._settings = dataclasses.replace(
            recorded_settings(run, default=workspace.config.measure),
            memory_snapshot=False,
            compile_trace=TracePolicy.NEVER.value,
        )
        self._executors: list[Executor] = []
        self._candidate: Toolchain | None = None
        self._baselines: dict[str, Toolchain | None] = {}
        self._is_cancelled = False

    @property
    def settings(self) -> MeasureSettings:
        """Return the settings of the run."""
        return self._settings

    def candidate(self) -> Toolchain:
        """Return the toolchain of the run; raise ExecutorError if it has changed."""
        if self._candidate is None:
            name = self._run.toolchain
            python = self._workspace.config.toolchains.get(name)
            if python is None:
                raise ExecutorError(
                    f"there is no toolchain {name} any more", toolchain=name, problem="missing"
                )
            executor, facts = self._open(python)
            if not self._is_as(facts, self._run.revision):
                raise ExecutorError(
                    f"toolchain {name} is at {revision(facts)} by now, the run was at"
                    f" {self._run.revision}, or its environment changed",
                    toolchain=name,
                    revision=revision(facts),
                    expected=self._run.revision,
                )
            self._candidate = Toolchain(name=name, revision=self._run.revision, executor=executor)
        return self._candidate

    def baseline(self, identity: str) -> Toolchain | None:
        """Return a toolchain at the revision `identity`, None if no toolchain has it.

        For a run of another machine it is None too.
        """
        if identity == self._run.revision or self._workspace.elsewhere is not None:
            return None
        if identity not in self._baselines:
            self._baselines[identity] = self._find(identity)
        return self._baselines[identity]

    def measure(self, case: Case, *, num_launches: int | None = None) -> CaseResult:
        """Measure `case` in the toolchain of the run.

        `num_launches` overrides the run's number of fresh processes.
        """
        order = self._order(case, num_launches=num_launches)
        return self.candidate().executor.execute(order)

    def measure_in_turn(
        self,
        case: Case,
        *,
        baseline: Toolchain,
        limits: PairLimits,
        is_enough: IsEnough | None = None,
    ) -> PairResult:
        """Measure `case` on both sides with interleaved launches until `is_enough`.

        By default the measurement ends when the time is decided.
        """
        order = self._order(case)
        return measure_pair(
            PairSide(executor=baseline.executor, order=order),
            PairSide(executor=self.candidate().executor, order=order),
            limits=limits,
            is_enough=is_enough,
        )

    def compile_in_turn(
        self, case: Case, *, baseline: Toolchain, limits: PairLimits, is_enough: IsEnough
    ) -> PairResult:
        """Measure first launches of `case` on both sides until `is_enough`, within `limits`.

        Each pair of launches has a session of its own, so that every compile cache is empty.
        """
        order = self._order(case, num_launches=1)
        standard = PairStandard(
            fail_above=limits.fail_above,
            num_looks=limits.max_launches - limits.min_launches + 1,
            num_cases=limits.num_cases,
        )
        sides = (baseline.executor, self.candidate().executor)
        done: tuple[list[CaseResult], list[CaseResult]] = ([], [])
        for number in range(1, limits.max_launches + 1):
            for side in (0, 1) if number % 2 else (1, 0):
                done[side].append(sides[side].execute(order))
            result = _merged(done, standard=standard)
            if number >= limits.min_launches and is_enough(result, number):
                break
        return result

    def cancel(self) -> None:
        """Kill the current measurement; later measurements end at once."""
        self._is_cancelled = True
        for executor in self._executors:
            executor.cancel()

    def close(self) -> None:
        """End all worker hosts."""
        for executor in self._executors:
            executor.close()

    def _find(self, identity: str) -> Toolchain | None:
        config, version = self._workspace.config, identity.partition("@")[0]
        ours = config.toolchains.get(self._run.toolchain)
        for name, python in config.toolchains.items():
            # The interpreter just measured has the run's revision; asking for it again costs
            # seconds.
            if (
                python == ours
                or self._workspace.dependencies.probe(python).torch_version != version
            ):
                continue
            try:
                executor, facts = self._open(python)
            except ExecutorError:
                # A toolchain that does not start is skipped; the next one may work.
                continue
            if self._is_as(facts, identity):
                return Toolchain(name=name, revision=identity, executor=executor)
        return None

    def _open(self, python: Path) -> tuple[Executor, Mapping[str, Any]]:
        if self._workspace.elsewhere is not None:
            executor = self._workspace.elsewhere(self._run)
        else:
            executor = executor_maker(self._workspace.dependencies.make_executor)(
                python=python,
                state_dir=self._workspace.config.state_dir,
                device=self._run.plan[0].device,
                num_threads=self._settings.num_threads,
            )
        self._executors.append(executor)
        if self._is_cancelled:
            raise ExecutorError("measuring again was stopped", problem="stopped")
        executor.start()
        return executor, executor.open()

    def _is_as(self, facts: Mapping[str, Any], identity: str) -> bool:
        """Return whether an environment has the revision `identity` and compares with the run."""
        known = {**facts, "num_threads": self._settings.num_threads}
        return revision(facts) == identity and compares(known, self._run)

    def _order(self, case: Case, *, num_launches: int | None = None) -> CaseOrder:
        planned = plan_case(
            case, catalog=self._workspace.config.catalog, variants=self._workspace.config.variants
        )
        settings = settings_for(case, self._settings)
        if num_launches is not None:
            settings = dataclasses.replace(
                settings, num_launches=num_launches, max_launches=num_launches
            )
        return CaseOrder(
            run_id=self._run.id, case=case, workload=planned.workload, settings=settings
        )


def _merged(
    done: tuple[Sequence[CaseResult], Sequence[CaseResult]], *, standard: PairStandard
) -> PairResult:
    before, after = (next(iter(results_by_case(side).values())) for side in done)
    rows: list[CaseComparison] = compare_pair(before, candidate=after, standard=standard)
    return PairResult(baseline=before, candidate=after, rows=tuple(rows))
