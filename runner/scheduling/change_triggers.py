"""Request a run when a repository or the newest torch of an index has changed.

The watch stores nothing on the disk: the revision is part of the job's key, and the queue accepts
no key twice. A scheduler that starts therefore notices changes since the last one ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from compile_hud.db.jobs.health import ScheduleState
from compile_hud.runner.config.schedules import Schedule, Watch, WatchKind
from compile_hud.runner.errors import BisectError, WatchFailed
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.format import clock
from compile_hud.runner.scheduling.job_requests import JobRequest
from compile_hud.runner.system.machine import Machine
from compile_hud.runner.toolchains.torch_releases import TorchSource

# The wait grows while a repository or index does not answer, but it is queried every night.
MAX_WAIT_S = 6 * 3600.0
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_COMMIT_DIGITS = 12

# It returns the current revision of a schedule's watch; raises WatchFailed.
FindRevision = Callable[[Schedule], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDependencies:
    """The dependencies of a watch; `pythons` are the interpreters of toolchains."""

    machine: Machine
    list_versions: Callable[[TorchSource], Sequence[str]]
    pythons: Mapping[str, Path]


@dataclass(kw_only=True)
class _WatchState:
    """The state of a schedule's watch."""

    next_at: datetime
    revision: str = ""
    num_failures: int = 0
    note: str = ""


class Watches:
    """The watches of the schedules that have one, looked at when they are due."""

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        *,
        look: FindRevision,
        save: Callable[[JobRequest], None],
        now: Callable[[], datetime],
        notify: Notify,
    ) -> None:
        self._schedules = {name: item for name, item in schedules.items() if item.watch}
        self._look = look
        self._save = save
        self._now = now
        self._notify = notify
        self._places = {name: _WatchState(next_at=now()) for name in self._schedules}

    def look(self) -> None:
        """Poll the due watches, and save a run request for each new revision."""
        for name, schedule in self._schedules.items():
            if self._places[name].next_at <= self._now():
                self._look_at(schedule, state=self._places[name])

    def states(self) -> tuple[ScheduleState, ...]:
        """Return the schedules, with the time of the next look at each."""
        return tuple(
            ScheduleState(
                name=name,
                suite=schedule.suite,
                toolchain=schedule.toolchain,
                rule=f"when {schedule.watch.text} changes" if schedule.watch else "",
                next_at=self._places[name].next_at,
                note=self._places[name].note,
            )
            for name, schedule in self._schedules.items()
        )

    def _look_at(self, schedule: Schedule, *, state: _WatchState) -> None:
        try:
            revision = self._look(schedule)
        except WatchFailed as error:
            wait_s = max(
                schedule.every_s, min(MAX_WAIT_S, schedule.every_s * 2**state.num_failures)
            )
            state.num_failures += 1
            state.note = f"{error}"
            if state.num_failures == 1:
                text = f"schedule {schedule.name}: {error}. It is looked at again in"
                self._notify(LogMessage(text=f"{text} {clock(wait_s)}", is_warning=True))
        else:
            wait_s = schedule.every_s
            state.num_failures = 0
            state.note = f"at {revision}"
            if revision != state.revision:
                state.revision = revision
                self._save(_request(schedule, revision=revision))
        state.next_at = self._now() + timedelta(seconds=wait_s)


def _request(schedule: Schedule, *, revision: str) -> JobRequest:
    return JobRequest(
        dedupe_key=f"{schedule.name} {revision}",
        suite=schedule.suite,
        toolchain=schedule.toolchain,
        trigger=f"schedule {schedule.name}",
    )


def find_revision(schedule: Schedule, *, dependencies: WatchDependencies) -> str:
    """Return the current revision of the watch of `schedule`; raise WatchFailed."""
    watch = schedule.watch
    assert watch is not None
    if watch.kind is WatchKind.GIT:
        return _commit(watch, machine=dependencies.machine)
    source = TorchSource(
        python=dependencies.pythons[schedule.toolchain],
        index_url=watch.url,
        is_nightly=watch.kind is WatchKind.TORCH_NIGHTLY,
    )
    try:
        return dependencies.list_versions(source)[-1]
    except BisectError as error:
        raise WatchFailed(f"{error}".partition("; name each")[0]) from error


def _commit(watch: Watch, *, machine: Machine) -> str:
    # git must not prompt for a password: no terminal is attached.
    git = ("env", "GIT_TERMINAL_PROMPT=0", "git", "ls-remote")
    answer = machine.ask(*git, "--", watch.url, *([watch.ref] if watch.ref else ["HEAD"]))
    if answer.problem:
        raise WatchFailed(
            f"{watch.text} cannot be looked at: {answer.problem}",
            watch=watch.text,
            reason=answer.problem,
        )
    lines = [line.split("\t") for line in answer.text.splitlines()]
    commits = {line[1]: line[0] for line in lines if len(line) == 2}
    # The order is git's own for a name. An annotated tag stands for its commit.
    names = (f"refs/heads/{watch.ref}", f"refs/tags/{watch.ref}^{{}}", f"refs/tags/{watch.ref}")
    refs = (*names, watch.ref) if watch.ref else ("HEAD",)
    commit = next((commits[name] for name in refs if name in commits), "")
    if not _COMMIT.fullmatch(commit):
        raise WatchFailed(
            f"{watch.text}: no {watch.ref or 'HEAD'} in that repository",
            watch=watch.text,
            ref=watch.ref or "HEAD",
        )
    return commit[:_COMMIT_DIGITS]
