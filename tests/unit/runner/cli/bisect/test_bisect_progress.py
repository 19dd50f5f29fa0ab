"""The progress of a bisection."""

from __future__ import annotations

import io

from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.events import LogMessage, PairLaunched
from tests.support.builders import make_case
from tests.support.fakes import FakeClock


def show(*, is_terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=80)
    with BisectProgress(console, now=FakeClock()) as progress:
        for number in (1, 2):
            progress(PairLaunched(case=make_case(), num_pairs=number))
        progress(LogMessage(text="as the good end"))
    return stream.getvalue()


def test_pairs_of_launches_are_counted_on_a_terminal(words: SnapshotAssertion) -> None:
    shown = show(is_terminal=True)
    assert "1 pair of launches" in shown
    assert "2 pairs of launches" in shown
    assert shown == words


def test_a_file_gets_lines_alone(words: SnapshotAssertion) -> None:
    assert show(is_terminal=False) == words
