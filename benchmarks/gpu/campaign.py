"""A campaign: waves of the cases that are worth most, until its time is over."""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.gpu.chunks import Work
from benchmarks.gpu.claims import cases_of_open_claims
from benchmarks.gpu.ledger import read_ledger, rows
from benchmarks.gpu.output import ResultFiles
from benchmarks.gpu.selection import Costs, Evidence, memory_gb, next_wave, ranked, worth
from benchmarks.gpu.waves import Entry, HostLane, Waves
from compile_hud.db.records.results import CaseResult, Outcome, Run, RunState
from compile_hud.db.shared.ids import timed_id
from compile_hud.runner.execution.environment import fingerprint, revision
from compile_hud.runner.execution.kernel_profile import with_kernels
from compile_hud.runner.execution.local_executor import COMPILE_THREADS_VARIABLE, LocalExecutor
from compile_hud.runner.execution.utilisation import with_utilisation
from compile_hud.runner.protocol.messages import LaunchReport

# A launch is late after this multiple of the expected time of half the wave, and so much more.
_PATIENCE = 1.3
_SPARE_S = 10.0
# Sampling is given at most this share of what is left.
_SAMPLE_SHARE = 0.4
# Beyond these a launch is killed.
_LAUNCH_LIMIT_S = 400.0
_SAMPLE_LIMIT_S = 60.0
# Time to write the last results.
_FINISH_S = 4.0
# More processes than a campaign has belong to other users.
_MAX_WAITING = 32
# With these outcomes a case counts as never measured.
_UNDECIDED = (Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY)
# With less time no wave is begun.
_LEAST_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a campaign; `until_s` is a time of `time.monotonic()`.

    `width` launches compile at a time, on one core each; there are more lanes, for second launches
    and for late ones. The rows of the models in `renewed` count as none.
    """

    device: str
    until_s: float
    width: int
    memory_limit_gb: float
    ledger: Path
    renewed: frozenset[str] = frozenset()

    @property
    def num_lanes(self) -> int:
        """Return the largest number of simultaneous launches."""
        return self.width + max(2, self.width // 3)


@dataclass(slots=True)
class Campaign:
    """Measures `candidates`; `finishing` makes results of launches while others compile."""

    candidates: Sequence[Work]
    options: Options
    state: Path
    out: Path
    finishing: Executor
    now: Callable[[], datetime]
    _costs: Costs = field(default_factory=Costs)
    _peaks: Mapping[str, Any] = field(default_factory=dict)
    _log: list[dict[str, Any]] = field(default_factory=list)
    _results: list[CaseResult] = field(default_factory=list)
    _jobs: list[Future[None]] = field(default_factory=list)
    _failures: list[LaunchReport] = field(default_factory=list)
    _has_measured: bool = False
    _run_id: str = ""
    _files: ResultFiles | None = None

    def run(self) -> None:
        """Measure until the time is over."""
        self._run_id = timed_id(self.now())
        lanes = self._new_lanes()
        facts = self._open()
        self._start_files(facts)
        evidence = _evidence(self.options, facts, self.candidates, costs=self._costs)
        waves = Waves(lanes, until_s=self.options.until_s, launch_limit_s=_LAUNCH_LIMIT_S)
        left = list(self.candidates)
        while left or waves.open:
            wave = self._next(left, evidence, waves=waves)
            if not (wave or waves.open) or self._left_s < _LEAST_S:
                break
            self._measure(wave, waves=waves)
            left = [work for work in left if work not in wave]
            if not self._has_measured:
                # The error, whatever it is, would spoil every other case as well.
                self._say("nothing works", reasons=[report.reason for report in self._failures])
                break
        self._finish(waves.close())
        for job in self._jobs:
            job.result(timeout=max(0.5, self.options.until_s + _FINISH_S - time.monotonic()))
        for lane in lanes:
            lane.close()
        self._say("end", num_left=len(left))

    def report(self) -> None:
        """Print the results."""
        for line in summary_lines(self._results):
            print(line)
        print(dict(Counter(str(result.outcome) for result in self._results)))

    @property
    def _left_s(self) -> float:
        return self.options.until_s - time.monotonic()

    def _next(self, left: Sequence[Work], evidence: Evidence, *, waves: Waves) -> list[Work]:
        options = self.options
        ranking = ranked(
            left,
            evidence=evidence,
            costs=self._costs,
            lanes=options.width,
            now=self.now(),
        )
        taken_gb = sum(memory_gb(work.case) for work in waves.open)
        return next_wave(
            ranking,
            costs=self._costs,
            lanes=min(options.width, waves.num_free),
            memory_limit_gb=options.memory_limit_gb - taken_gb,
            left_s=self._left_s - sum(self._costs.of(work).sample_s for work in waves.open),
            is_alone=not waves.open,
        )

    def _measure(self, works: Sequence[Work], *, waves: Waves) -> None:
        costs = [self._costs.of(work) for work in (*works, *waves.open)]
        sample_s = sum(cost.sample_s for cost in costs)
        wave = waves.run(
            works,
            patience_s=_PATIENCE * statistics.median(cost.prepare_s for cost in costs) + _SPARE_S,
            # Towards the end few are ready: the others go on compiling rather than wait for it.
            sample_s=min(sample_s, _SAMPLE_SHARE * max(self._left_s, 0.0)),
            sample_limit_s=_SAMPLE_LIMIT_S,
        )
        self._say(
            "wave",
            cases=[work.case.key for work in works],
            prepare_s=round(wave.prepare_s, 2),
            sample_s=round(wave.sample_s, 2),
            num_launches=wave.num_launches,
            num_late=wave.num_late,
        )
        self._finish(wave.ended)
        reports = [entry.report for entry in wave.ended if entry.report is not None]
        self._failures = [report for report in reports if report.outcome is not Outcome.OK]
        self._has_measured |= bool(waves.open) or len(self._failures) < len(reports)

    def _finish(self, entries: Sequence[Entry]) -> None:
        """Write the results of `entries` while the next ones compile."""
        for entry in entries:
            # The steps of a launch exclude the reading of its trace; the choice of the next wave
            # needs only them.
            if entry.first_report is not None and not entry.was_frozen:
                self._costs.learn(entry.work.case, entry.first_report.details.get("steps") or ())
            self._jobs.append(self.finishing.submit(self._write, entry))

    def _write(self, entry: Entry) -> None:
        result = without_own_processes(entry.result())
        result = replace(result, details={**result.details, "chunk": entry.work.chunk.name})
        assert self._files is not None
        self._files.add(result)
        self._results.append(result)
        entry.session.close()

    def _open(self) -> Mapping[str, Any]:
        """Return the facts of the environment, and store the device's peaks."""
        executor = LocalExecutor(
            python=Path(sys.executable), state_dir=self.state, device=self.options.device
        )
        try:
            facts = executor.open()
        finally:
            executor.close()
        self._peaks = facts["peaks"]
        return {**facts, "num_threads": 1}

    def _start_files(self, facts: Mapping[str, Any]) -> None:
        run = Run(
            id=self._run_id,
            started_at=self.now(),
            suite="gpu-campaign",
            toolchain="current",
            revision=revision(facts),
            machine=str(facts.get("device_name") or socket.gethostname()),
            environment=facts,
            fingerprint=fingerprint(facts),
            plan=(),
            state=RunState.FINISHED,
            finished_at=None,
        )
        self._files = ResultFiles(self.out, run=run)
        self._say("start", device=facts.get("device_name"), torch=facts.get("torch_version"))

    def _new_lanes(self) -> list[HostLane]:
        # One core each: a pool of compilers in every launch would take the cores of the others.
        os.environ[COMPILE_THREADS_VARIABLE] = "1"
        lanes = [
            HostLane(
                number=number,
                python=Path(sys.executable),
                state=self.state,
                run_id=self._run_id,
                amend=self._amend,
                now=self.now,
            )
            for number in range(self.options.num_lanes)
        ]
        for lane in lanes:
            lane.start()
        return lanes

    def _amend(self, result: CaseResult, trace: Path) -> CaseResult:
        result = with_utilisation(result, peaks=self._peaks)
        if time.monotonic() > self.options.until_s:
            return result
        return with_kernels(result, trace=trace, peaks=self._peaks)

    def _say(self, event: str, **facts: Any) -> None:
        entry = {"event": event, "at_s": round(time.monotonic(), 2), **facts}
        self._log.append(entry)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "log.json").write_text(json.dumps(self._log, indent=1), encoding="utf-8")
        text = {name: fact for name, fact in entry.items() if name != "cases"}
        print(text, len(facts.get("cases", ())), flush=True)


def without_own_processes(result: CaseResult) -> CaseResult:
    """Return `result` without the warning about other processes, if these only waited."""
    others = [
        int((reading or {}).get("num_other_processes") or 0)
        for reading in result.details.get("telemetry") or ()
    ]
    if max(others, default=0) > _MAX_WAITING:
        return result
    warnings = tuple(warning for warning in result.warnings if warning.code != "shared-gpu")
    return replace(result, warnings=warnings)


def _evidence(
    options: Options, facts: Mapping[str, Any], works: Sequence[Work], *, costs: Costs
) -> Evidence:
    """Return the ledger's results of this device, and let `costs` learn from them."""
    documents = read_ledger(options.ledger)
    device = facts.get("device_name")
    measured: dict[str, datetime] = {}
    for row in rows(documents):
        if row.run.environment.get("device_name") == device:
            if row.result.outcome in _UNDECIDED:
                continue
            if row.case.model not in options.renewed:
                measured[row.case.key] = row.result.started_at
            steps = row.result.details.get("steps") or [()]
            costs.learn(row.case, steps[0] or ())
    return Evidence(
        measured_at=measured,
        claimed=cases_of_open_claims(documents, cases=[work.case for work in works]),
    )


def plan_lines(works: Sequence[Work], *, options: Options, seconds: float) -> Iterator[str]:
    """Yield the plan of a campaign of `seconds`, wave by wave, by expected costs."""
    costs = Costs()
    now = datetime.now(timezone.utc)
    documents = read_ledger(options.ledger)
    devices = sorted({row.device_name for row in rows(documents)}) or ["a device without a row"]
    for device in devices:
        evidence = _evidence(options, {"device_name": device}, works, costs=costs)
        left, left_s, number = list(works), seconds, 0
        yield f"on {device}, {seconds:.0f} s:"
        while left:
            ranking = ranked(left, evidence=evidence, costs=costs, lanes=options.width, now=now)
            wave = next_wave(
                ranking,
                costs=costs,
                lanes=options.width,
                memory_limit_gb=options.memory_limit_gb,
                left_s=left_s,
            )
            if not wave:
                break
            number += 1
            prepare_s = max(costs.of(work).prepare_s for work in wave)
            sample_s = sum(costs.of(work).sample_s * work.settings.num_launches for work in wave)
            left_s -= prepare_s + sample_s
            left = [work for work in left if work not in wave]
            yield f"  wave {number}: {prepare_s:.0f} s to compile, {sample_s:.0f} s to sample"
            for work in wave:
                value = worth(work, evidence=evidence, now=now)
                yield f"    {work.case.key} ({work.chunk.name}, worth {value:.1f})"
        yield f"  {len(left)} cases are left for later"


def summary_lines(results: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a row for each result: its latency, speedup, compile times and warnings."""
    for result in sorted(results, key=lambda item: item.case.key):
        case = result.case
        head = f"{case.model} {case.phase[:5]} {case.shape} {case.dtype} {case.variant}"
        if result.outcome is not Outcome.OK:
            yield f"{head}: {result.outcome} {result.reason[:150]}"
            continue
        numbers = []
        for metric in ("latency_s", "speedup", "compile_cold_s", "compile_warm_s", "peak_bytes"):
            measured = result.measurement(metric)
            numbers.append("-" if measured is None else f"{measured.median:.4g}")
        codes = ",".join(sorted({warning.code for warning in result.warnings}))
        yield f"{head}: {' '.join(numbers)} {codes}"
