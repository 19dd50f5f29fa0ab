"""hud mcp: the tools of agents, through the client of the official SDK."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolResult, Tool

from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import suite_of_case
from compile_hud.db.records.results import CUSTOM_SUITE
from compile_hud.runner.cli.mcp import command
from compile_hud.runner.cli.mcp.server import make_server
from compile_hud.runner.cli.mcp.tools import REQUEST, AgentTool, make_tools
from compile_hud.runner.documents.endpoints import ENDPOINTS, EndpointSource
from compile_hud.runner.errors import AgentsUnavailable, InvalidParameter
from tests.support.builders import START, make_run
from tests.support.sources import ROOT
from tests.support.stores.api_stores import CASE, fill_for_api
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


@pytest.fixture
def tools(terminal: Terminal) -> tuple[AgentTool, ...]:
    """Return the tools over a store with one of each object."""
    fill_for_api(terminal.store())
    source = EndpointSource(store=terminal.store(), now=terminal.clock)
    return make_tools(source, by="ada", now=terminal.clock, has_writes=True)


def _with_client(tools: tuple[AgentTool, ...], use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(make_server(tools)) as client:
            return await use(client)

    return anyio.run(main)


def _call(tools: tuple[AgentTool, ...], name: str, **arguments: Any) -> CallToolResult:
    result: CallToolResult = _with_client(tools, lambda client: client.call_tool(name, arguments))
    return result


def _text(result: CallToolResult) -> str:
    (item,) = result.content
    text: str = getattr(item, "text", "")
    return text


def _listed(tools: tuple[AgentTool, ...]) -> list[Tool]:
    async def use(client: Client) -> list[Tool]:
        return (await client.list_tools()).tools

    listed: list[Tool] = _with_client(tools, use)
    return listed


def test_each_endpoint_but_the_whole_document_is_a_tool(tools: tuple[AgentTool, ...]) -> None:
    listed = _listed(tools)
    expected = [item.name for item in ENDPOINTS if item.name != "show_document"]
    assert [tool.name for tool in listed] == [*expected, REQUEST]
    for tool in listed:
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name != REQUEST)


def test_the_answers_are_the_objects_of_the_command(
    tools: tuple[AgentTool, ...], terminal: Terminal
) -> None:
    printed = json.loads(terminal.hud("alerts", "show", "alert-1", "--json").stdout)
    result = _call(tools, "show_alert", alert="alert-1")
    printed.pop("url")
    assert {**result.structured_content, "url": ""} == {**printed, "url": ""}
    assert json.loads(_text(result)) == result.structured_content


@pytest.mark.parametrize(
    ("name", "arguments", "num_items"),
    [
        ("list_runs", {"limit": 1}, 1),
        ("list_runs", {"limit": None}, 2),
        ("list_alerts", {"state": ["open", "fixed"]}, 1),
        ("list_findings", {"code": ["graph-break"]}, 1),
        ("list_points", {"case": CASE.key, "metric": "latency_s"}, 2),
    ],
)
def test_arguments_select(
    name: str, arguments: dict[str, Any], num_items: int, tools: tuple[AgentTool, ...]
) -> None:
    result = _call(tools, name, **arguments)
    assert not result.is_error
    assert len(result.structured_content["items"]) == num_items


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("list_runs", {"lmt": 3}, "mean limit"),
        ("list_runs", {"limit": 5000}, "not '5000'"),
        ("list_runs", {"limit": True}, "not bool"),
        ("show_run", {"run": True}, "not bool"),
        ("list_alerts", {"state": [{"a": 1}]}, "not dict"),
        ("show_run", {}, "'run' is missing"),
        ("show_run", {"run": "run-\u0000"}, "NUL"),
        ("show_run", {"run": "zzz"}, "'zzz'"),
        ("show_runs", {}, "'show_runs'"),
        ("list_alerts", {"state": "opn"}, "mean open"),
    ],
)
def test_an_error_is_an_answer(
    name: str, arguments: dict[str, Any], text: str, tools: tuple[AgentTool, ...]
) -> None:
    result = _call(tools, name, **arguments)
    assert result.is_error
    assert text in _text(result)


def test_a_case_is_queued_once_on_the_machine_of_its_run(
    tools: tuple[AgentTool, ...], terminal: Terminal
) -> None:
    request = {"run": "latest", "case": "default", "reason": "confirm\nit"}
    first = _call(tools, REQUEST, **request).structured_content
    assert first == {
        "suite": suite_of_case(CASE.key),
        "toolchain": "stable",
        "machine": "box",
        "is_queued": True,
        "reason": "",
    }
    terminal.clock.advance(3600)
    assert not _call(tools, REQUEST, **request).structured_content["is_queued"]
    (job,) = load_health(terminal.store()).open_jobs
    assert (job.suite, job.machine) == (first["suite"], "box")
    assert job.trigger.startswith("ada: confirm")
    assert "\n" not in job.trigger


def test_a_suite_is_queued_unless_it_was_a_selection_by_hand(
    tools: tuple[AgentTool, ...], terminal: Terminal
) -> None:
    assert _call(tools, REQUEST, run="run-1", reason="x").structured_content["suite"] == "nightly"
    by_hand = make_run("by-hand", suite=CUSTOM_SUITE, started_at=START.replace(day=9))
    terminal.store().save_run(by_hand)
    with pytest.raises(InvalidParameter, match="by-hand"):
        tools[-1].answer({"run": "by-hand", "reason": "x"})
    assert _call(tools, REQUEST, run="run-1").is_error


def test_read_only_tools_queue_nothing(terminal: Terminal) -> None:
    source = EndpointSource(store=terminal.store(), now=terminal.clock)
    tools = make_tools(source, by="ada", now=terminal.clock, has_writes=False)
    assert all(tool.is_read_only for tool in tools)


def test_without_the_package_the_command_names_the_extra(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_PACKAGE", "no_such_package")
    error = terminal.error("mcp")
    assert isinstance(error, AgentsUnavailable)
    assert "compile-hud[mcp]" in str(error)


def test_a_client_starts_the_command_and_calls_a_tool(
    tools: tuple[AgentTool, ...], terminal: Terminal
) -> None:
    assert tools
    arguments = ["-m", "compile_hud.runner", "mcp", "--read-only", "--store", terminal.store().name]
    server = StdioServerParameters(
        command=sys.executable,
        args=arguments,
        cwd=terminal.folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
    )

    async def main() -> tuple[list[str], Any]:
        async with Client(server) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, (await client.call_tool("list_models", {})).structured_content

    names, models = anyio.run(main)
    assert REQUEST not in names
    assert [item["name"] for item in models["items"]] == ["bert"]
