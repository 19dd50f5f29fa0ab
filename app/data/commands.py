"""Shell commands that repeat what a page shows."""

from __future__ import annotations

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import CUSTOM_SUITE, Case, Run, Verdict
from compile_hud.db.shared.text import printable
from compile_hud.runner.analysis.repro import (
    compare_command,
    repro_command,
    suite_command,
    transplant_command,
)


def run_command(run: Run) -> str:
    """Return the command that measures the cases of `run` again, "" for none.

    A selection by hand has no name, so no command repeats it.
    """
    if run.suite == CUSTOM_SUITE:
        return ""
    return printable(suite_command(run.suite, toolchain=run.toolchain))


def comparing_command(baseline: Run, candidate: Run) -> str:
    """Return the command that compares two runs in a terminal."""
    return printable(compare_command(baseline.id, candidate.id))


def transplanting_command(alert: Alert) -> str:
    """Return the command that measures the bad build with the good one's kernels.

    An improvement has no loss to explain, so its command is "".
    """
    if alert.verdict is Verdict.IMPROVEMENT:
        return ""
    return printable(transplant_command(alert.id))


def repro(case: Case, *, toolchain: str) -> str:
    """Return the command that measures `case` in `toolchain` again.

    A character that cannot be printed becomes `?`, which matches any character in the name of a
    model.
    """
    return printable(repro_command(case, toolchain=toolchain))
