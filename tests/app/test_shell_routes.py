"""The document that every page begins as."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.main import VIEWS
from app.shellroutes import shell_routes


@pytest.mark.parametrize("path", ["", *(view.path for view in VIEWS[1:])])
def test_page_is_told_where_its_server_is(path: str) -> None:
    client = TestClient(Starlette(routes=shell_routes([path])))
    answer = client.get(f"/{path}")
    head, _, rest = answer.text.partition("</script>")
    assert 'window.__streamlit = {BACKEND_BASE_URL: new URL(".", location.href).href}' in head
    # Before any script of Streamlit reads it.
    assert "<script" not in head.partition("<script>")[2]
    assert 'type="module"' in rest
    assert "<title>Compile HUD</title>" in rest
    assert answer.headers["cache-control"] == "no-cache"
