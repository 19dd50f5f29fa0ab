"""Files next to the store that no result names, and results whose file is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compile_hud.db.maintenance.consistency import find_named_traces
from compile_hud.db.queries.kernels import load_locations
from compile_hud.runner.persistence.spool import ORPHAN_AGE_S
from compile_hud.runner.persistence.trace_store import traces_in
from compile_hud.runner.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanFiles:
    """Files of one kind; without `paths` a repair has nothing to remove.

    A kind that is no error follows from the settings or from a restored backup.
    """

    folder: Path
    number: int
    text: str
    paths: tuple[Path, ...] = ()
    is_error: bool = True


def find_orphan_files(workspace: Workspace) -> tuple[OrphanFiles, ...]:
    """Return the traces without a result, the missing traces and the broken spooled results."""
    spool = workspace.spool()
    orphans = [*_traces(workspace)]
    if broken := tuple(sorted(spool.broken_directory.glob("*.json"))):
        text = "broken results; move them back once the cause is fixed"
        orphans.append(OrphanFiles(folder=spool.broken_directory, number=len(broken), text=text))
    return tuple(orphans)


def remove_orphan_files(orphans: Sequence[OrphanFiles]) -> int:
    """Remove the files and return how many; raise OSError."""
    paths = [path for item in orphans for path in item.paths]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _traces(workspace: Workspace) -> list[OrphanFiles]:
    folder, store = workspace.config.traces_dir, workspace.store()
    if folder is None:
        return []
    traces = traces_in(folder)
    orphans = []
    # A trace is moved before its result is stored, and results may still wait.
    if traces and not workspace.spool().pending():
        last = workspace.dependencies.now().timestamp() - ORPHAN_AGE_S
        locations = load_locations(store, traces)
        alone = [path for name, path in traces.items() if name not in locations]
        old = tuple(sorted(path for path in alone if path.stat().st_mtime < last))
        if old:
            text = "traces of results that are not there"
            orphans.append(OrphanFiles(folder=folder, number=len(old), text=text, paths=old))
    rules = workspace.config.trace_rules
    gone = find_named_traces(store, num_nights=rules.num_nights) - traces.keys()
    if gone:
        text = (
            "results whose trace is missing, which changes no number; it was pruned or deleted, or"
            " the store comes from a backup"
        )
        orphans.append(OrphanFiles(folder=folder, number=len(gone), text=text, is_error=False))
    return orphans
