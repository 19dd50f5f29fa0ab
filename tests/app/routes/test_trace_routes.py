"""The routes of stored traces send the trace and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.server.trace_routes import trace_routes
from compile_hud.db.shared.trace_paths import PERFETTO_VARIABLE, TRACES_VARIABLE
from tests.support.pages.page_elements import visible_text

TRACE = b"\x1f\x8b the trace"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a client of the routes, over a folder with one trace and a secret beside it."""
    folder = tmp_path / "store.traces"
    folder.mkdir()
    (folder / "result-1.json.gz").write_bytes(TRACE)
    (tmp_path / "secret.json.gz").write_bytes(b"secret")
    monkeypatch.setenv(TRACES_VARIABLE, str(folder))
    return TestClient(Starlette(routes=trace_routes()))


def test_a_trace_is_a_file_to_download(client: TestClient) -> None:
    answer = client.get("/traces/result-1")
    assert (answer.status_code, answer.content) == (200, TRACE)
    assert answer.headers["content-disposition"] == 'attachment; filename="result-1.json.gz"'
    assert answer.headers["content-type"] == "application/gzip"
    # A browser that unpacks it would save a file that is not what its name says.
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("path", ["/traces/result-1", "/perfetto/result-1"])
def test_head_answers_as_get_without_the_body(path: str, client: TestClient) -> None:
    answer = client.head(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert (
        answer.headers["content-length"] == str(len(client.get(path).content)) or "perfetto" in path
    )


@pytest.mark.parametrize("kind", ["traces", "perfetto"])
@pytest.mark.parametrize(
    "name",
    [
        "result-2",
        "..%2Fsecret",
        "%2e%2e%2fsecret",
        "..%5Csecret",
        "result-1.json.gz",
        "result-1%00",
        "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "x" * 5000,
    ],
)
def test_a_missing_trace_is_a_page_with_a_next_step(
    kind: str, name: str, client: TestClient
) -> None:
    answer = client.get(f"/{kind}/{name}")
    assert answer.status_code == 404
    assert answer.content != b"secret"
    assert "<script" not in answer.text
    assert len(answer.content) < 2000


def test_a_trace_that_is_gone_names_its_rule(client: TestClient, words: SnapshotAssertion) -> None:
    assert visible_text(client.get("/traces/result-2").text) == words
    page = client.get("/perfetto/result-2").text
    assert visible_text(page) == words
    # Dark where the browser is, like the pages beside it.
    assert 'name="color-scheme" content="light dark"' in page


def test_the_hand_over_names_the_trace_and_the_perfetto_ui(client: TestClient) -> None:
    page = client.get("/perfetto/result-1")
    assert 'data-trace="../traces/result-1"' in page.text
    assert 'data-perfetto="https://ui.perfetto.dev"' in page.text
    assert 'download="result-1.json.gz"' in page.text


def test_the_hand_over_loads_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/perfetto/result-1")
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page.text)
    policy = page.headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)
    assert nonce is not None
    assert f'<script nonce="{nonce[1]}">' in page.text
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_a_perfetto_ui_of_ones_own_is_taken(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PERFETTO_VARIABLE, "http://perfetto.local:10000")
    assert 'data-perfetto="http://perfetto.local:10000"' in client.get("/perfetto/result-1").text


def test_an_invalid_address_is_not_put_into_the_page(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PERFETTO_VARIABLE, 'javascript:alert(1)"')
    assert "javascript:" not in client.get("/perfetto/result-1").text
