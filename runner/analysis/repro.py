"""The command that measures a case again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from compile_hud.db.records.imported import is_backfilled, is_imported
from compile_hud.db.records.results import Case

# The toolchain of a `hud run` that names none.
_DEFAULT_TOOLCHAIN = "current"


def repro_command(case: Case, *, toolchain: str = _DEFAULT_TOOLCHAIN) -> str:
    """Return the `hud run` line for `case` in `toolchain`, quoted for a POSIX shell.

    For an imported or backfilled history it is a comment: no such run can be measured again.
    """
    if is_backfilled(toolchain):
        return f"# {case.key} is a point of {toolchain}: `hud backfill` measures such a history"
    if is_imported(toolchain):
        return f"# {case.key} was measured elsewhere ({toolchain}): nothing here can repeat it"
    options = case_options(case)
    if toolchain != _DEFAULT_TOOLCHAIN:
        options = (*options, ("toolchain", toolchain))
    return command_line("run", options)


def suite_command(suite: str, *, toolchain: str = _DEFAULT_TOOLCHAIN) -> str:
    """Return the `hud run` line for a whole suite, "" if no command here can measure it again."""
    if is_imported(toolchain):
        return ""
    named = () if toolchain == _DEFAULT_TOOLCHAIN else (("toolchain", toolchain),)
    return command_line("run", (("suite", suite), *named))


def compare_command(baseline: str, candidate: str, options: Sequence[tuple[str, str]] = ()) -> str:
    """Return the `hud compare` line for two stored runs, by their ids, with `options` by name."""
    line = command_line("compare", options)
    # An id may begin with a dash; no option is read behind the two.
    return f"{line} -- {shlex.quote(baseline)} {shlex.quote(candidate)}"


def transplant_command(alert_id: str) -> str:
    """Return the `hud kernels transplant` line for an alert."""
    return f"hud kernels transplant -- {shlex.quote(alert_id)}"


def isolate_command(baseline: str, candidate: str, options: Sequence[tuple[str, str]]) -> str:
    """Return the `hud isolate` line for two toolchains, with `options` by name."""
    line = command_line("isolate", options)
    return f"{line} -- {shlex.quote(baseline)} {shlex.quote(candidate)}"


def case_options(case: Case) -> tuple[tuple[str, str], ...]:
    """Return the options, by name, that select `case` and no other one."""
    return (
        ("model", glob_escape(case.model)),
        ("mode", glob_escape(case.variant)),
        ("phase", str(case.phase)),
        ("dtype", str(case.dtype)),
        ("shape", case.shape),
        ("device", case.device),
    )


def command_line(command: str, options: Sequence[tuple[str, str]]) -> str:
    """Return `hud COMMAND` with `options`, by name, quoted for a POSIX shell."""
    words = [word for name, value in options for word in _option(name, value)]
    return " ".join(["hud", command, *words])


def glob_escape(name: str) -> str:
    """Return the glob that matches `name` alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _option(name: str, value: str) -> list[str]:
    # After a space the command line would take it for another option.
    if value.startswith("-"):
        return [shlex.quote(f"--{name}={value}")]
    return [f"--{name}", shlex.quote(value)]
