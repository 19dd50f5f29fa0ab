"""The commands that continue a stored isolation, and the texts that lead to them."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE
from compile_hud.runner.analysis.repro import case_options, command_line, isolate_command
from compile_hud.runner.isolate.record import StoredIsolation


def resume_command(known: StoredIsolation, options: Sequence[tuple[str, str]] = ()) -> str:
    """Return the command that continues `known`, with other limits in `options`."""
    return command_line("isolate", [("resume", known.id), *options])


def anew_command(known: StoredIsolation, options: Sequence[tuple[str, str]] = ()) -> str:
    """Return the command that measures the same again, with limits in `options`."""
    own = [*case_options(known.case)]
    if known.metric is not None:
        own.append(("metric", known.metric))
    if known.limits.floor != DEFAULT_FAIL_ABOVE:
        own.append(("floor", f"{100 * known.limits.floor:g}%"))
    return isolate_command(known.baseline, known.candidate, [*own, *options])


def longer_options(known: StoredIsolation) -> list[tuple[str, str]]:
    """Return the options that double the time of each measurement."""
    limits = known.limits
    return [
        ("max-launches", str(2 * limits.max_launches)),
        ("step-minutes", f"{2 * limits.step_s / 60:g}"),
    ]


def stopped_text(known: StoredIsolation) -> str:
    """Return the text of a stop: what is stored, and what continues it."""
    if known.ends is None:
        return "stopped before both toolchains were measured, so nothing new is stored"
    return f"stopped; {_stored_text(known)} stored, and `{resume_command(known)}` continues"


def continued_text(known: StoredIsolation) -> str:
    """Return the text of the start of a search that was stored."""
    return f"continuing the isolation {known.id}: {_stored_text(known)} stored"


def changed_text(known: StoredIsolation, *, toolchain: str, changes: Sequence[str]) -> str:
    """Return the error for a toolchain that is not the measured one any more."""
    more = f" (and {counted(len(changes) - 1, 'more change')})" if len(changes) > 1 else ""
    return (
        f"toolchain {toolchain} has changed since the isolation {known.id} began: {changes[0]}"
        f"{more}. Undo it, or measure anew with `{anew_command(known)}`"
    )


def _stored_text(known: StoredIsolation) -> str:
    if not known.num_mixtures:
        return "both toolchains are"
    return f"both toolchains and {counted(known.num_mixtures, 'mixture')} are"
