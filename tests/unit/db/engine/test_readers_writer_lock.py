"""Waiting ends when the lock is free or the time is up."""

from __future__ import annotations

import dataclasses

import pytest

from compile_hud.db.engine.readers_writer_lock import LockTimeout


def _lock_timeout(
    naps_s: list[float], *, timeout_s: float = 1.0, jitter: float = 0.0
) -> LockTimeout:
    return LockTimeout(
        timeout_s=timeout_s,
        sleep=naps_s.append,
        monotonic=lambda: sum(naps_s),
        jitter=lambda: jitter,
    )


def test_a_free_lock_is_taken_at_once() -> None:
    naps_s: list[float] = []
    assert _lock_timeout(naps_s, timeout_s=0).wait(is_free=lambda: True)
    assert naps_s == []


def test_a_lock_that_becomes_free_is_taken() -> None:
    naps_s: list[float] = []
    answers = iter([False, False, True])
    assert _lock_timeout(naps_s).wait(is_free=lambda: next(answers))
    assert len(naps_s) == 2


def test_waiting_gives_up_after_the_timeout() -> None:
    naps_s: list[float] = []
    assert not _lock_timeout(naps_s).wait(is_free=lambda: False)
    assert 1.0 <= sum(naps_s) < 1.1


def test_who_rests_asks_less_and_less_often() -> None:
    naps_s: list[float] = []
    assert not _lock_timeout(naps_s, timeout_s=30.0).wait(is_free=lambda: False, backs_off=True)
    assert naps_s[0] == pytest.approx(0.005)
    assert max(naps_s) == pytest.approx(0.255)
    # Without resting it would be 6,000 times.
    assert len(naps_s) < 200


def test_jitter_spreads_the_naps() -> None:
    short: list[float] = []
    long: list[float] = []
    _lock_timeout(short).wait(is_free=lambda: False)
    _lock_timeout(long, jitter=1.0).wait(is_free=lambda: False)
    assert long[0] == 5 * short[0]


def test_a_long_wait_is_reported_once_with_the_holder_and_what_is_left() -> None:
    naps_s: list[float] = []
    messages: list[tuple[int | None, float]] = []
    lock_timeout = dataclasses.replace(
        _lock_timeout(naps_s, timeout_s=5.0),
        on_wait=lambda holder, left_s: messages.append((holder, left_s)),
    )
    assert not lock_timeout.wait(is_free=lambda: False, holder=lambda: 7)
    ((holder, left_s),) = messages
    assert holder == 7
    assert left_s == pytest.approx(3.0, abs=0.01)


def test_a_short_wait_is_not_reported() -> None:
    naps_s: list[float] = []
    messages: list[int | None] = []
    lock_timeout = dataclasses.replace(
        _lock_timeout(naps_s, timeout_s=5.0),
        on_wait=lambda holder, _left_s: messages.append(holder),
    )
    assert lock_timeout.wait(is_free=lambda: sum(naps_s) > 1.9)
    assert messages == []
