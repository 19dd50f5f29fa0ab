"""The progress of a command: lines on a terminal, or log records."""

from __future__ import annotations

import click

from compile_hud.db.shared.logging import FORMATS
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.reporting.log_progress import LogProgress
from compile_hud.runner.reporting.terminal_progress import TerminalProgress
from compile_hud.runner.workspace import Workspace


def log_format() -> str:
    """Return the log format of this call of `hud`: `text` or `json`."""
    context = click.get_current_context(silent=True)
    root = None if context is None else context.find_root()
    return str(root.params.get("log_format", FORMATS[0])) if root else FORMATS[0]


def new_progress(workspace: Workspace) -> TerminalProgress | LogProgress:
    """Return the progress reporter for standard error: lines for people, or log records."""
    if log_format() == "json":
        return LogProgress()
    return TerminalProgress(stderr(), now=workspace.dependencies.now)
