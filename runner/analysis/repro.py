"""The command that measures a case again."""

from __future__ import annotations

import shlex

from db.records import Case

# The toolchain of a `hud run` that names none.
_DEFAULT_TOOLCHAIN = "current"


def repro_command(case: Case, *, toolchain: str = _DEFAULT_TOOLCHAIN) -> str:
    """Return the `hud run` line for `case` in `toolchain`, quoted for a POSIX shell."""
    options = {
        "model": glob_escape(case.model),
        "mode": glob_escape(case.variant),
        "phase": str(case.phase),
        "dtype": str(case.dtype),
        "shape": case.shape,
        "device": case.device,
    }
    if toolchain != _DEFAULT_TOOLCHAIN:
        options["toolchain"] = toolchain
    words = [word for name, value in options.items() for word in _option(name, value)]
    return " ".join(["hud", "run", *words])


def glob_escape(name: str) -> str:
    """Return the glob that matches `name` alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _option(name: str, value: str) -> list[str]:
    # After a space the command line would take it for another option.
    if value.startswith("-"):
        return [shlex.quote(f"--{name}={value}")]
    return [f"--{name}", shlex.quote(value)]
