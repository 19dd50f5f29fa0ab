"""Show a bisection in the terminal while it is going."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from compile_hud.runner.events import Event, PairLaunched, Said
from compile_hud.runner.reporting.terminal_progress import TerminalProgress


class BisectProgress:
    """Lines of what was found and, on a terminal, how many pairs of launches a step has so far."""

    def __init__(self, console: Console, *, now: Callable[[], datetime]) -> None:
        self._lines = TerminalProgress(console, now=now)
        self._is_terminal = console.is_terminal
        # Nothing is drawn between events: a thread that did would run beside the measurement.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> BisectProgress:
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show `event`."""
        if isinstance(event, PairLaunched) and self._is_terminal:
            pairs = "pair" if event.num_pairs == 1 else "pairs"
            self._live.start()
            line = Text(f"  {event.num_pairs} {pairs} of launches")
            self._live.update(line, refresh=True)
        if isinstance(event, Said):
            self._live.stop()
            self._lines(event)
