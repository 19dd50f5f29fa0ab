"""Long tables, which show their first rows until a click requests all."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui import pagination as firstrows
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import text_of, texts_of_rows

TABLES = {"overview": "latest results, model by variant"}


@pytest.fixture
def two_at_first(monkeypatch: pytest.MonkeyPatch, seeded: object) -> None:  # noqa: ARG001
    """Let two rows be many."""
    monkeypatch.setattr(firstrows, "NUM_FIRST", 2)
    monkeypatch.setattr(firstrows, "MAX_UNASKED", 2)


@pytest.mark.usefixtures("two_at_first")
@pytest.mark.parametrize("path", TABLES)
def test_a_button_shows_all_rows_and_the_first_again(path: str, open_page: OpenPage) -> None:
    page = open_page(path)
    first = texts_of_rows(page, TABLES[path])
    assert len(first) == 2
    assert "The first 2 of" in text_of(page)

    page.button(key="rows").click().run()
    rows = texts_of_rows(page, TABLES[path])
    assert len(rows) > 2
    assert rows[:2] == first
    assert "The first 2 of" not in text_of(page)
    assert page.query_params["rows"] == "all"

    page.button(key="rows").click().run()
    assert texts_of_rows(page, TABLES[path]) == first
    assert "rows" not in page.query_params


@pytest.mark.usefixtures("two_at_first")
@pytest.mark.parametrize("path", TABLES)
def test_a_link_to_all_rows_shows_all(
    path: str, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page(path, rows="all")
    assert len(texts_of_rows(page, TABLES[path])) > 2
    assert page.button(key="rows").label == words


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("path", TABLES)
def test_a_short_table_has_no_button(path: str, open_page: OpenPage) -> None:
    page = open_page(path)
    assert "rows" not in [button.key for button in page.button]
