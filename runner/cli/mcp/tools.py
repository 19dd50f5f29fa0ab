"""The tools of agents: every endpoint of the API, and one that asks for a measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.runner.documents.endpoints import ENDPOINTS, Endpoint, EndpointSource, Page
from compile_hud.runner.documents.parameters import Parameter, read_values
from compile_hud.runner.documents.requests import request_measurement
from compile_hud.runner.errors import InvalidParameter

# A whole run has megabytes of samples; no model reads them.
_TOO_LARGE = ("show_document",)
REQUEST = "request_measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool: its name, what it does, its parameters, and the function that does it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    call: Callable[[Mapping[str, Any]], dict[str, Any]]
    is_read_only: bool = True

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        properties = {
            item.name: {
                **item.schema(),
                "description": item.description,
                "examples": [[item.example] if item.is_repeated else item.example],
            }
            for item in self.parameters
        }
        required = [item.name for item in self.parameters if item.is_in_path or item.is_required]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def answer(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result for `arguments`; raise InvalidParameter for invalid ones."""
        texts = {
            name: _texts(value, name=name) for name, value in arguments.items() if value is not None
        }
        return self.call(read_values(texts, self.parameters))


def make_tools(
    source: EndpointSource, *, by: str, now: Callable[[], datetime], has_writes: bool
) -> tuple[AgentTool, ...]:
    """Return the tools over `source`; those that write only with `has_writes`, in the name `by`."""
    reading = (_reading(item, source) for item in ENDPOINTS if item.name not in _TOO_LARGE)
    return (*reading, *([_requesting(source, by=by, now=now)] if has_writes else []))


def _reading(endpoint: Endpoint, source: EndpointSource) -> AgentTool:
    def call(values: Mapping[str, Any]) -> dict[str, Any]:
        content = endpoint.read(source, values)
        return content.to_json() if isinstance(content, Page) else content

    return AgentTool(
        name=endpoint.name,
        description=f"{endpoint.summary}. {endpoint.shape.description}",
        parameters=endpoint.all_parameters,
        call=call,
    )


def _requesting(source: EndpointSource, *, by: str, now: Callable[[], datetime]) -> AgentTool:
    def call(values: Mapping[str, Any]) -> dict[str, Any]:
        return request_measurement(
            source.store,
            values["run"],
            case_name=values["case"],
            by=by,
            reason=values["reason"],
            now=now(),
        )

    return AgentTool(
        name=REQUEST,
        description=(
            "Queue a measurement: the suite of a run, or one of its cases, on the run's machine and"
            " in its toolchain. The scheduler of that machine measures it when it is free."
        ),
        parameters=(
            Parameter(
                name="run",
                description="The run to measure again: an id, the start of one, or `latest`.",
                example="latest",
                is_required=True,
            ),
            Parameter(
                name="case",
                description="Only this case: its key, a part of it, or a glob.",
                example="bert*default",
                default="",
            ),
            Parameter(
                name="reason",
                description="The reason, for the record.",
                example="confirm the regression of bert",
                is_required=True,
            ),
        ),
        call=call,
        is_read_only=False,
    )


def _texts(value: Any, *, name: str) -> Sequence[str]:
    items = value if isinstance(value, list) else [value]
    for item in items:
        # True is a number to Python, and no name of anything.
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            raise InvalidParameter(
                f"parameter {name!r} is a text or a number, not {type(item).__name__}",
                hint="Send it as the schema of the tool says",
            )
    return [str(item) for item in items]
