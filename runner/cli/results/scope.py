"""The machine and the toolchain that a command shows."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.queries.latest import load_scopes
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.summaries import Scope
from compile_hud.db.store import Store
from compile_hud.runner.cli.output import empty_text
from compile_hud.runner.errors import NoSuchResult


def selected_scope(store: Store, *, machine: str | None, toolchain: str | None) -> tuple[str, str]:
    """Return the machine and the toolchain, by default those that the page shows first."""
    if text := empty_text(store):
        raise NoSuchResult(text, store=store.name)
    scopes = [scope for scope in load_scopes(store) if scope.has_cases]
    machine = machine or load_runs(store, limit=1)[0].run.machine
    fitting = [
        scope
        for scope in scopes
        if scope.machine == machine and toolchain in (None, scope.toolchain)
    ]
    newest = max(fitting, key=lambda scope: scope.newest_at, default=None)
    if newest is None:
        in_toolchain = f" in toolchain {toolchain}" if toolchain else ""
        raise NoSuchResult(
            f"no result of machine {machine}{in_toolchain}; {_scopes_text(scopes)}",
            machine=machine,
            toolchain=toolchain,
        )
    return newest.machine, newest.toolchain


def _scopes_text(scopes: Sequence[Scope]) -> str:
    if not scopes:
        return "the store has none at all"
    shown = ", ".join(f"{scope.machine} (toolchain {scope.toolchain})" for scope in scopes)
    return f"machines with results: {shown}"
