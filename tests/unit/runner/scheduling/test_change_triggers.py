"""Looking at what may change: cheaply, patiently, and once for each revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.schedules import Schedule, Watch, WatchKind
from compile_hud.runner.errors import BisectError, WatchFailed
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.scheduling.change_triggers import (
    MAX_WAIT_S,
    WatchDependencies,
    Watches,
    find_revision,
)
from compile_hud.runner.scheduling.job_requests import JobRequest
from compile_hud.runner.system.machine import ProgramOutput
from compile_hud.runner.toolchains.torch_releases import TorchSource
from tests.support.fakes import FakeClock, FakeMachine

A, B, C = ("a" * 40, "b" * 40, "c" * 40)
REFS = f"{A}\tHEAD\n{B}\trefs/heads/main\n{C}\trefs/tags/v1\n{A}\trefs/tags/v1^{{}}"


def make(watch: Watch, *, every_s: float = 600.0) -> Schedule:
    return Schedule(name="ours", suite="mine", toolchain="nightly", watch=watch, every_s=every_s)


REPOSITORY = make(Watch(kind=WatchKind.GIT, url="/src"))


class Looking:
    """Watches whose looks give `answers` in turn, None for a failure."""

    def __init__(self, *answers: str | None) -> None:
        self.clock = FakeClock()
        self.answers = list(answers)
        self.requests: list[JobRequest] = []
        self.events: list[Event] = []
        self.watches = Watches(
            {
                "ours": REPOSITORY,
                "night": Schedule(name="night", suite="s", toolchain="t", cron="x"),
            },
            look=self.look,
            save=self.requests.append,
            now=self.clock,
            notify=self.events.append,
        )

    def look(self, _schedule: Schedule) -> str:
        answer = self.answers.pop(0)
        if answer is None:
            raise WatchFailed("no answer")
        return answer

    def after(self, seconds: float) -> int:
        """Look after so long; return how many answers are left."""
        self.clock.advance(seconds)
        self.watches.look()
        return len(self.answers)


def test_a_change_asks_for_one_run() -> None:
    looking = Looking("one", "one", "two", "one")
    assert [looking.after(600) for _ in range(4)] == [3, 2, 1, 0]
    assert [request.dedupe_key for request in looking.requests] == [
        "ours one",
        "ours two",
        # The queue knows it, and runs nothing.
        "ours one",
    ]
    first = looking.requests[0]
    assert (first.suite, first.toolchain, first.trigger) == ("mine", "nightly", "schedule ours")


def test_nothing_is_looked_at_before_it_is_due() -> None:
    looking = Looking("one", "two")
    assert [looking.after(seconds) for seconds in (0, 599, 1)] == [1, 1, 0]


def test_a_silent_server_is_polled_less_often_and_reported_once(words: SnapshotAssertion) -> None:
    looking = Looking(*[None] * 9, "one", "two")
    waits = []
    for _ in range(9):
        looking.watches.look()
        (state,) = looking.watches.states()
        assert state.next_at is not None
        assert state.note == "no answer"
        waits.append((state.next_at - looking.clock()).total_seconds())
        looking.clock.advance(waits[-1])
    assert waits == [600, 1200, 2400, 4800, 9600, 19200, MAX_WAIT_S, MAX_WAIT_S, MAX_WAIT_S]
    messages = [event.text for event in looking.events if isinstance(event, LogMessage)]
    assert messages == words
    looking.watches.look()
    assert looking.after(600) == 0
    assert len(looking.requests) == 2


def test_the_watched_source_is_reported(words: SnapshotAssertion) -> None:
    looking = Looking("one")
    looking.watches.look()
    (state,) = looking.watches.states()
    assert (state.name, state.rule, state.note) == words


def look(
    watch: Watch,
    *,
    reply: ProgramOutput | None = None,
    list_versions: Callable[[TorchSource], Sequence[str]] = lambda _source: (),
) -> tuple[str, FakeMachine]:
    machine = FakeMachine(replies={} if reply is None else {"ls-remote": reply})
    dependencies = WatchDependencies(
        machine=machine, list_versions=list_versions, pythons={"nightly": Path("/python")}
    )
    return find_revision(make(watch), dependencies=dependencies), machine


@pytest.mark.parametrize(("ref", "commit"), [("", A), ("main", B), ("v1", A)])
def test_a_repository_is_at_a_commit(ref: str, commit: str) -> None:
    watch = Watch(kind=WatchKind.GIT, url="/src", ref=ref)
    state, machine = look(watch, reply=ProgramOutput(text=REFS))
    assert state == commit[:12]
    end = ("git", "ls-remote", "--", "/src", ref or "HEAD")
    assert machine.commands == [("env", "GIT_TERMINAL_PROMPT=0", *end)]


@pytest.mark.parametrize(
    "reply",
    [
        ProgramOutput(problem="git ended with code 128: no repository"),
        ProgramOutput(text=""),
        ProgramOutput(text="nonsense\trefs/heads/gone"),
    ],
)
def test_a_repository_that_does_not_answer_is_a_watch_failure(
    reply: ProgramOutput, words: SnapshotAssertion
) -> None:
    with pytest.raises(WatchFailed) as caught:
        look(Watch(kind=WatchKind.GIT, url="/src", ref="gone"), reply=reply)
    assert str(caught.value) == words


@pytest.mark.parametrize("kind", [WatchKind.TORCH, WatchKind.TORCH_NIGHTLY])
def test_an_index_is_at_its_newest_torch(kind: WatchKind) -> None:
    queries: list[TorchSource] = []

    def list_versions(source: TorchSource) -> Sequence[str]:
        queries.append(source)
        return ("2.12.0", "2.13.0")

    watch = Watch(kind=kind, url="https://example.org/whl")
    assert look(watch, list_versions=list_versions)[0] == "2.13.0"
    is_nightly = kind is WatchKind.TORCH_NIGHTLY
    assert queries == [
        TorchSource(python=Path("/python"), index_url=watch.url, is_nightly=is_nightly)
    ]


def test_an_index_that_does_not_answer_is_a_watch_failure(
    words: SnapshotAssertion,
) -> None:
    def list_versions(_source: TorchSource) -> Sequence[str]:
        raise BisectError("cannot list the versions of torch (no answer); name each of them: --t")

    with pytest.raises(WatchFailed) as caught:
        look(Watch(kind=WatchKind.TORCH), list_versions=list_versions)
    assert str(caught.value) == words
