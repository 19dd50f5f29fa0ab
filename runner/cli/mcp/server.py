"""The server of the Model Context Protocol, on standard input and output.

https://modelcontextprotocol.io/specification defines the protocol; the official SDK speaks it.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
from collections.abc import Sequence
from typing import Any

import anyio
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)

from compile_hud.db.errors import CodedError
from compile_hud.runner.cli.mcp.tools import AgentTool

logger = logging.getLogger(__name__)

_INSTRUCTIONS = (
    "Performance of PyTorch models under torch.compile, measured night by night. Begin with"
    " list_alerts for regressions or list_runs for runs; show_result has the findings of a case."
    " Times are in seconds, memory in bytes."
)


def serve(tools: Sequence[AgentTool]) -> None:
    """Serve `tools` until standard input ends."""
    server = make_server(tools)

    async def run() -> None:
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    anyio.run(run)


def make_server(tools: Sequence[AgentTool]) -> Server[Any]:
    """Return a server of `tools`."""
    by_name = {tool.name: tool for tool in tools}

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(tool) for tool in tools])

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            return _failed(f"no tool {params.name!r}. There are: {', '.join(by_name)}")
        try:
            content = await to_thread.run_sync(tool.answer, params.arguments or {})
        except CodedError as error:
            hint = error.parameters.get("hint")
            return _failed(f"{error}. {hint}" if hint else str(error))
        text = json.dumps(content, allow_nan=False)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=content
        )

    return Server(
        "compile-hud",
        version=importlib.metadata.version("compile-hud"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(tool: AgentTool) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        annotations=ToolAnnotations(
            read_only_hint=tool.is_read_only,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _failed(text: str) -> CallToolResult:
    logger.info("a tool failed: %s", text)
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
