"""The document that every page begins as."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from compile_hud.app.main import VIEWS
from compile_hud.app.server.page_routes import shell_routes
from compile_hud.app.ui.theme import style_sheet


@pytest.mark.parametrize("path", ["", *(view.path for view in VIEWS[1:])])
def test_a_page_knows_the_address_of_its_server(path: str) -> None:
    client = TestClient(Starlette(routes=shell_routes([path])))
    answer = client.get(f"/{path}")
    head, _, rest = answer.text.partition("</script>")
    assert 'window.__streamlit = {BACKEND_BASE_URL: new URL(".", location.href).href}' in head
    # Before any script of Streamlit reads it.
    assert "<script" not in head.partition("<script>")[2]
    assert 'type="module"' in rest
    assert "<title>Compile HUD</title>" in rest
    # Behind the styles of Streamlit, which are in the head.
    assert style_sheet() in rest.partition("<body>")[2]
    assert answer.headers["cache-control"] == "no-cache"


def test_what_nearly_every_page_draws_is_loaded_before_it_is_drawn() -> None:
    import streamlit

    page = TestClient(Starlette(routes=shell_routes([""]))).get("/").text
    scripts = Path(streamlit.__file__).parent / "static" / "static" / "js"
    preloaded = re.findall(r'rel="modulepreload" crossorigin href="./static/js/([^"]+)"', page)
    assert all((scripts / name).exists() for name in preloaded)
    names = {name.split(".")[0] for name in preloaded}
    assert {"Html", "Selectbox", "BidiComponent"} <= names
    # What Html cannot run without.
    assert "purify" in names
    assert len(preloaded) == len(set(preloaded))


def test_the_server_compiles_the_templates_before_the_first_request() -> None:
    code = """
import asyncio
from compile_hud.app import asgi
from compile_hud.app.ui.templates.environment import environment

async def start():
    async with asgi.lifespan(None):
        print(len(environment().cache) == len(environment().list_templates(extensions=["html"])))

asyncio.run(start())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
