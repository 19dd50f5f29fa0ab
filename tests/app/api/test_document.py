"""docs/reference/api.md: its examples are what the API answers."""

from __future__ import annotations

import json
import re

import pytest
from starlette.testclient import TestClient

from compile_hud.runner.documents.endpoints import PREFIX
from tests.support.sources import text_of

_EXAMPLE = re.compile(
    r"```console\n\$ curl -s '?http://localhost:8501(?P<path>\S+?)'?\n```\n\n"
    r"```json\n(?P<answer>.*?)\n```",
    re.DOTALL,
)
EXAMPLES = {
    match["path"]: match["answer"] for match in _EXAMPLE.finditer(text_of("docs/reference/api.md"))
}


def test_every_example_is_recognised() -> None:
    text = text_of("docs/reference/api.md")
    assert len(EXAMPLES) == text.count("```console") > 2


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_is_the_answer(path: str, client: TestClient) -> None:
    assert client.get(path).json() == json.loads(EXAMPLES[path])


def test_the_document_is_about_this_version() -> None:
    assert f"`{PREFIX}/openapi.json`" in text_of("docs/reference/api.md")
