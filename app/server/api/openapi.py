"""The OpenAPI 3.1 document, made from the table of endpoints."""

from __future__ import annotations

import functools
import importlib.metadata
from http import HTTPStatus
from typing import Any

from compile_hud.app.auth.problems import PROBLEM_SCHEMA, PROBLEM_TYPE
from compile_hud.runner.documents.endpoints import ENDPOINTS, PREFIX, Endpoint
from compile_hud.runner.documents.parameters import Parameter

OPENAPI_PATH = f"{PREFIX}/openapi.json"
_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: "A parameter is unknown, missing or invalid.",
    HTTPStatus.UNAUTHORIZED: "A token or a sign-in is needed.",
    HTTPStatus.FORBIDDEN: "The person who is signed in may not view the dashboard.",
    HTTPStatus.NOT_FOUND: "The store has no such object.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The store cannot be read now; `Retry-After` has seconds.",
}


@functools.cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of all endpoints."""
    shapes = {item.shape.name: item.shape.schema() for item in ENDPOINTS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Compile HUD",
            "version": importlib.metadata.version("compile-hud"),
            "description": "Runs, results, alerts, findings and comparisons of one store.",
        },
        "paths": {f"{PREFIX}{item.path}": {"get": _operation(item)} for item in ENDPOINTS},
        "components": {
            "schemas": {**shapes, "Problem": PROBLEM_SCHEMA},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "signIn": {"type": "apiKey", "in": "cookie", "name": "_streamlit_user"},
            },
        },
        # An empty requirement: a dashboard without a sign-in and without a token is open.
        "security": [{}, {"token": []}, {"signIn": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    item = {"$ref": f"#/components/schemas/{endpoint.shape.name}"}
    problem = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [_parameter(item) for item in endpoint.all_parameters],
        "responses": {
            "200": {
                "description": endpoint.summary,
                "headers": {"ETag": {"schema": {"type": "string"}}},
                "content": {
                    "application/json": {"schema": _page_of(item) if endpoint.is_list else item}
                },
            },
            "304": {"description": "The store has not changed since this `ETag`."},
            **{
                str(int(status)): {"description": text, "content": problem}
                for status, text in _PROBLEMS.items()
            },
        },
    }


def _page_of(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": item},
            "next_offset": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["items", "next_offset"],
    }


def _parameter(item: Parameter) -> dict[str, Any]:
    return {
        "name": item.name,
        "in": "path" if item.is_in_path else "query",
        "required": item.is_in_path or item.is_required,
        "description": item.description,
        "schema": item.schema(),
        "example": [item.example] if item.is_repeated else item.example,
    }
