"""Execute one case under several toolchains, launch by launch in turn.

A B, B A, A B ...: what drifts meanwhile (clocks, heat, neighbours) hits every toolchain alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.execution.executor import CaseSession
from compile_hud.runner.execution.paired_launches import PairSide

# One result for each side, in the order of the sides.
MeasureCase = Callable[[Sequence[PairSide]], Sequence[CaseResult]]


def launch_in_turn(sides: Sequence[PairSide]) -> tuple[CaseResult, ...]:
    """Return what the case did on each side, each with the launches that it needs.

    Raises ExecutorError when a host is gone for good.
    """
    with ExitStack() as stack:
        sessions: list[CaseSession] = []
        for side in sides:
            session = side.executor.begin(side.order)
            stack.callback(session.close)
            sessions.append(session)
        ordered = sessions
        while waiting := [session for session in ordered if session.needs_launch]:
            for session in waiting:
                session.launch()
            ordered = ordered[::-1]
        return tuple(session.finish() for session in sessions)
