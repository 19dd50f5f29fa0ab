from __future__ import annotations

import threading

from compile_hud.runner.system.heartbeat_thread import heartbeat


def test_a_failed_report_is_not_the_last_one() -> None:
    num_calls = 0
    is_enough = threading.Event()

    def report() -> None:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 4:
            is_enough.set()
        raise RuntimeError("no sign of life")

    with heartbeat(report, every_s=0.001):
        assert is_enough.wait(60)
