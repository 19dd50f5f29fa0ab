"""The machine and the toolchain whose results are shown."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

from compile_hud.db.queries.latest import load_scopes
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Case
from compile_hud.db.records.summaries import Scope
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.documents.filtered.empty_store import empty_text
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
        # A toolchain is misspelt only on a machine that has results.
        here = [scope.toolchain for scope in scopes if scope.machine == machine]
        typed, known = (toolchain or "", here) if here else (machine, [it.machine for it in scopes])
        near = near_names(typed, known)
        hint = f". Did you mean {near}?" if near else ""
        raise NoSuchResult(
            f"no result of machine {machine}{in_toolchain}; {_scopes_text(scopes)}{hint}",
            machine=machine,
            toolchain=toolchain,
        )
    return newest.machine, newest.toolchain


def fits(case: Case, patterns: Mapping[str, str]) -> bool:
    """Return whether each named field of `case` fits its glob."""
    return all(
        fnmatch.fnmatchcase(str(getattr(case, name)), pattern) for name, pattern in patterns.items()
    )


def suggestion(filters: Mapping[str, str], *, cases: Sequence[Case]) -> str:
    """Return the values of `cases` that are like those of `filters`, globs that fit none."""
    values = {name: {str(getattr(case, name)) for case in cases} for name in filters}
    near = [
        near_names(pattern, sorted(values[name]))
        for name, pattern in filters.items()
        if not fnmatch.filter(values[name], pattern)
    ]
    return f". Did you mean {', '.join(filter(None, near))}?" if any(near) else ""


def _scopes_text(scopes: Sequence[Scope]) -> str:
    if not scopes:
        return "the store has none at all"
    shown = ", ".join(f"{scope.machine} (toolchain {scope.toolchain})" for scope in scopes)
    return f"machines with results: {shown}"
