"""hud mcp: the store for agents."""

from __future__ import annotations

import importlib
import importlib.util

import click

from compile_hud.db.shared.local_sign_in import local_user
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.mcp.tools import make_tools
from compile_hud.runner.cli.output import with_workspace
from compile_hud.runner.documents.endpoints import EndpointSource
from compile_hud.runner.errors import AgentsUnavailable
from compile_hud.runner.workspace import Workspace

_PACKAGE = "mcp"


@click.command(
    "mcp",
    cls=ExampleCommand,
    examples=(
        "hud mcp --read-only",
        "hud mcp",
    ),
)
@click.option("--read-only", "is_read_only", is_flag=True, help="Queue no measurements.")
@with_workspace
def mcp_command(workspace: Workspace, *, is_read_only: bool) -> None:
    """Serve the store to agents over the Model Context Protocol.

    Standard input and output speak the protocol. The tools have the objects of the read API: runs,
    results, kernels, findings, alerts, series and comparisons. One tool queues a measurement.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        raise AgentsUnavailable(
            f"{_PACKAGE} is not installed; `pip install 'compile-hud[mcp]'` installs it",
            package=_PACKAGE,
        )
    # Importing the SDK takes a second, and no other command needs it, so the import is here.
    server = importlib.import_module("compile_hud.runner.cli.mcp.server")
    source = EndpointSource(
        store=workspace.store(),
        now=workspace.dependencies.now,
        dashboard=workspace.config.dashboard,
    )
    server.serve(
        make_tools(
            source,
            by=f"{local_user()} (hud mcp)",
            now=workspace.dependencies.now,
            has_writes=not is_read_only,
        )
    )
