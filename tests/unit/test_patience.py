"""Waiting ends when the lock is free or the time is up."""

from __future__ import annotations

from db.turnstile import Patience


def _patience(naps_s: list[float], *, timeout_s: float = 1.0, jitter: float = 0.0) -> Patience:
    return Patience(
        timeout_s=timeout_s,
        sleep=naps_s.append,
        monotonic=lambda: sum(naps_s),
        jitter=lambda: jitter,
    )


def test_a_free_lock_is_taken_at_once() -> None:
    naps_s: list[float] = []
    assert _patience(naps_s, timeout_s=0).wait(is_free=lambda: True)
    assert naps_s == []


def test_a_lock_that_becomes_free_is_taken() -> None:
    naps_s: list[float] = []
    answers = iter([False, False, True])
    assert _patience(naps_s).wait(is_free=lambda: next(answers))
    assert len(naps_s) == 2


def test_waiting_gives_up_after_the_timeout() -> None:
    naps_s: list[float] = []
    assert not _patience(naps_s).wait(is_free=lambda: False)
    assert 1.0 <= sum(naps_s) < 1.1


def test_jitter_spreads_the_naps() -> None:
    short: list[float] = []
    long: list[float] = []
    _patience(short).wait(is_free=lambda: False)
    _patience(long, jitter=1.0).wait(is_free=lambda: False)
    assert long[0] == 5 * short[0]
