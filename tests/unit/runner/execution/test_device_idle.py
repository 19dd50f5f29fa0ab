"""Waiting for a device that others use."""

from __future__ import annotations

from collections.abc import Sequence

from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.execution.device_idle import wait_until_idle, with_users
from tests.support.builders import make_result
from tests.support.fakes import FakeClock

OTHER = ("python3 (PID 7)",)


def wait(looks: Sequence[tuple[str, ...]], *, limit_s: float) -> tuple[tuple[str, ...], list[str]]:
    """Return what waiting comes to when `looks` are seen in turn, and what was said."""
    clock, events, left = FakeClock(), list[Event](), list(looks)
    wait_result = wait_until_idle(
        "cuda",
        users=lambda _device: left.pop(0),
        limit_s=limit_s,
        now=clock,
        sleep=clock.advance,
        notify=events.append,
    )
    assert not left
    return wait_result, [event.text for event in events if isinstance(event, LogMessage)]


def test_an_idle_device_is_not_waited_for() -> None:
    assert wait([()], limit_s=600) == ((), [])


def test_a_device_is_waited_for_until_it_is_idle(words: SnapshotAssertion) -> None:
    outcome, messages = wait([OTHER, OTHER, ()], limit_s=600)
    assert outcome == ()
    assert messages == words


def test_after_the_limit_it_is_measured_all_the_same(words: SnapshotAssertion) -> None:
    outcome, messages = wait([OTHER] * 4, limit_s=40)
    assert outcome == OTHER
    assert messages[1:] == words


def test_without_a_limit_the_wait_ends_at_once() -> None:
    outcome, messages = wait([OTHER], limit_s=0)
    assert (outcome, len(messages)) == (OTHER, 1)


def test_a_result_names_once_the_other_programs_on_its_device(words: SnapshotAssertion) -> None:
    result = make_result()
    assert with_users(result, users=()) is result
    shared = with_users(result, users=OTHER)
    assert shared.warnings[-1].text == words
    assert with_users(shared, users=OTHER) is shared
    seen = make_result(warnings=(RunWarning(code="shared-gpu", text="2 other processes"),))
    assert with_users(seen, users=OTHER) is seen
