"""The OpenAPI document: valid, complete, and true of the responses."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from compile_hud.app.server.api.openapi import OPENAPI_PATH, openapi_document
from compile_hud.db.store import Store
from compile_hud.runner.documents.endpoints import ENDPOINTS, PREFIX

DOCUMENT = openapi_document()
PATHS = [*DOCUMENT["paths"]]


def _validator(reference: dict[str, Any]) -> Draft202012Validator:
    # References to components start at the root of the document.
    return Draft202012Validator({"components": DOCUMENT["components"], "allOf": [reference]})


def _example(path: str) -> tuple[str, dict[str, Any]]:
    """Return `path` with the examples of its parameters, and those of its query."""
    query = {}
    for item in DOCUMENT["paths"][path]["get"]["parameters"]:
        if item["in"] == "path":
            path = path.replace(f"{{{item['name']}}}", item["example"])
        else:
            query[item["name"]] = item["example"]
    return path, query


def test_the_document_is_sent(client: TestClient) -> None:
    answer = client.get(OPENAPI_PATH)
    assert (answer.status_code, answer.json()) == (200, DOCUMENT)


def test_each_endpoint_is_described_once() -> None:
    assert [f"{PREFIX}{item.path}" for item in ENDPOINTS] == PATHS
    operations = [item["get"] for item in DOCUMENT["paths"].values()]
    assert len({item["operationId"] for item in operations}) == len(operations)
    assert DOCUMENT["openapi"] == "3.1.0"


@pytest.mark.parametrize("path", PATHS)
def test_parameters_are_those_of_the_path_and_have_valid_examples(path: str) -> None:
    parameters = DOCUMENT["paths"][path]["get"]["parameters"]
    in_path = {item["name"] for item in parameters if item["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", path))
    for item in parameters:
        Draft202012Validator.check_schema(item["schema"])
        _validator(item["schema"]).validate(item["example"])
        if "default" in item["schema"]:
            _validator(item["schema"]).validate(item["schema"]["default"])
        assert item["description"].endswith(".")


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_schemas_are_valid(name: str) -> None:
    Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


@pytest.mark.parametrize("path", PATHS)
def test_the_response_to_the_examples_fits_its_schema(
    path: str, client: TestClient, released: Store
) -> None:
    assert not released.is_missing()
    url, query = _example(path)
    # Together the examples of the filters may fit nothing.
    required = {
        item["name"] for item in DOCUMENT["paths"][path]["get"]["parameters"] if item["required"]
    }
    responses = DOCUMENT["paths"][path]["get"]["responses"]
    schema = responses["200"]["content"]["application/json"]["schema"]
    for params in (query, {name: query[name] for name in query if name in required}):
        answer = client.get(url, params=params)
        assert answer.status_code == 200, answer.text
        _validator(schema).validate(answer.json())
    assert answer.json().get("items", ["one"]) != []


def test_a_response_that_lacks_a_field_is_noticed() -> None:
    schema = {"$ref": "#/components/schemas/RunItem"}
    assert [*_validator(schema).iter_errors({"id": "run-1"})]


@pytest.mark.parametrize("path", ["runs?limit=0", "runs/zzz", "zzz"])
def test_errors_fit_their_schema(path: str, client: TestClient) -> None:
    schema = {"$ref": "#/components/schemas/Problem"}
    _validator(schema).validate(client.get(f"{PREFIX}/{path}").json())
