"""The transfer of a trace between two windows of a browser, to a fake of the Perfetto UI."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from compile_hud.app.server.trace_routes import trace_routes
from compile_hud.db.shared.trace_paths import PERFETTO_VARIABLE, TRACES_VARIABLE
from tests.e2e.conftest import Watched

START_S = 30.0
TRACE = b"\x1f\x8b the trace"
# What the UI does with the messages that its documentation names.
UI = """<!doctype html><title>waiting</title><script>
addEventListener("message", (event) => {
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
  else document.title = event.data.perfetto.fileName + " " + event.data.perfetto.buffer.byteLength;
});
</script>"""


async def show_ui(_request: Request) -> HTMLResponse:
    """Return the stand-in."""
    return HTMLResponse(UI)


async def show_silence(_request: Request) -> HTMLResponse:
    """Return a page that answers nothing."""
    return HTMLResponse("<!doctype html><title>silent</title>")


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return the port of a server with one trace, the stand-in and a page that is silent."""
    (tmp_path / "result-1.json.gz").write_bytes(TRACE)
    monkeypatch.setenv(TRACES_VARIABLE, str(tmp_path))
    pages = [Route("/ui", show_ui), Route("/silent", show_silence)]
    routes = Starlette(routes=[*trace_routes(), *pages])
    server = uvicorn.Server(uvicorn.Config(routes, port=0, log_level="warning"))
    listening = server.config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    # A socket that is bound refuses connections until the server listens.
    deadline = time.monotonic() + START_S
    while not server.started:
        assert thread.is_alive(), "the server ended before it listened"
        assert time.monotonic() < deadline, f"the server does not listen after {START_S:g} s"
        time.sleep(0.01)
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()
    listening.close()


def test_the_trace_goes_from_window_to_window(
    port: int, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another origin than that of the dashboard, as the real one is.
    monkeypatch.setenv(PERFETTO_VARIABLE, f"http://localhost:{port}/ui")
    page = watched.page
    page.goto(f"http://127.0.0.1:{port}/perfetto/result-1")
    with page.expect_popup() as opened:
        page.get_by_role("button").click()
    expect(opened.value).to_have_title(f"result-1.json.gz {len(TRACE)}")
    expect(page.get_by_role("status")).to_contain_text("The trace was handed over")


def test_a_ui_that_does_not_answer_leaves_the_download(
    port: int, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PERFETTO_VARIABLE, f"http://localhost:{port}/silent")
    page = watched.page
    page.goto(f"http://127.0.0.1:{port}/perfetto/result-1")
    with page.expect_popup() as opened:
        page.get_by_role("button").click()
    opened.value.close()
    expect(page.get_by_role("status")).to_contain_text("Download the trace instead")
    with page.expect_download() as file:
        page.get_by_role("link", name="download the trace").click()
    assert Path(file.value.path()).read_bytes() == TRACE
