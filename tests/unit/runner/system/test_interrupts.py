from __future__ import annotations

import signal
import threading

import pytest

from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.system.interrupts import Interrupts

ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ALL)
def test_a_signal_raises_at_once(number: signal.Signals) -> None:
    with Interrupts() as interrupts, pytest.raises(RunInterrupted, match="stopped before a case"):
        signal.raise_signal(number)
    assert interrupts.were_requested()


@pytest.mark.parametrize("number", ALL)
def test_a_deferred_signal_calls_instead_and_is_remembered(number: signal.Signals) -> None:
    calls: list[str] = []
    with Interrupts() as interrupts, interrupts.deferred(lambda: calls.append("cancel")):
        assert not interrupts.were_requested()
        signal.raise_signal(number)
    assert calls == ["cancel"]
    assert interrupts.were_requested()


def test_the_second_signal_finds_the_handler_from_before() -> None:
    with Interrupts() as interrupts, interrupts.deferred(lambda: None):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_afterwards_everything_is_as_before() -> None:
    before = [signal.getsignal(number) for number in ALL]
    with Interrupts():
        assert [signal.getsignal(number) for number in ALL] != before
    assert [signal.getsignal(number) for number in ALL] == before


def test_another_thread_leaves_the_handlers_alone() -> None:
    seen: list[object] = []

    def enter() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_what_is_ignored_stays_so_and_the_other_signal_is_heard() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.were_requested()
            with pytest.raises(RunInterrupted):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
