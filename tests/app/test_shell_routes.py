"""The document that every page begins as."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import streamlit
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.main import VIEWS
from app.shellroutes import shell_routes
from app.theme import STYLE_SHEET


@pytest.mark.parametrize("path", ["", *(view.path for view in VIEWS[1:])])
def test_page_is_told_where_its_server_is(path: str) -> None:
    client = TestClient(Starlette(routes=shell_routes({path: ()})))
    answer = client.get(f"/{path}")
    head, _, rest = answer.text.partition("</script>")
    assert 'window.__streamlit = {BACKEND_BASE_URL: new URL(".", location.href).href}' in head
    # Before any script of Streamlit reads it.
    assert "<script" not in head.partition("<script>")[2]
    assert 'type="module"' in rest
    assert "<title>Compile HUD</title>" in rest
    # Behind the styles of Streamlit, which are in the head.
    assert STYLE_SHEET in rest.partition("<body>")[2]
    assert answer.headers["cache-control"] == "no-cache"


def test_what_nearly_every_page_draws_is_loaded_before_it_is_drawn() -> None:
    page = TestClient(Starlette(routes=shell_routes({"": ()}))).get("/").text
    scripts = Path(streamlit.__file__).parent / "static" / "static" / "js"
    preloaded = re.findall(r'rel="modulepreload" crossorigin href="./static/js/([^"]+)"', page)
    assert all((scripts / name).exists() for name in preloaded)
    names = {name.split(".")[0] for name in preloaded}
    assert {"Html", "Selectbox", "LinkButton", "BidiComponent"} <= names
    # What Html cannot run without.
    assert "purify" in names
    assert len(preloaded) == len(set(preloaded))


def test_what_a_page_draws_besides_is_loaded_and_run_on_that_page_alone() -> None:
    client = TestClient(Starlette(routes=shell_routes({"": (), "series": ("DataFrame",)})))
    pages = [client.get(path).text for path in ("/", "/series")]
    assert [bool(re.search(r'href="./static/js/DataFrame\.', page)) for page in pages] == [
        False,
        True,
    ]
    # Streamlit's own script comes first: it asks the server for what is to be drawn.
    own, run = (pages[1].index(text) for text in ('src="./static/js/index.', "import("))
    assert own < run
    for page, wanted in zip(pages, ({"Html"}, {"Html", "DataFrame"}), strict=True):
        imported = set(re.findall(r'import\("./static/js/(\w+)\.', page))
        assert wanted <= imported
        assert ("DataFrame" in imported) is ("DataFrame" in wanted)


def test_every_page_names_elements_that_streamlit_has() -> None:
    scripts = Path(streamlit.__file__).parent / "static" / "static" / "js"
    drawn = {name for view in VIEWS for name in view.draws}
    assert drawn
    assert all(len(list(scripts.glob(f"{name}.*.js"))) == 1 for name in drawn)
