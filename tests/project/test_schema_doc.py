"""docs/reference/schema.md agrees with the tables."""

from __future__ import annotations

from pathlib import Path

from compile_hud.db.schema.markdown import markdown

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "schema.md"


def test_schema_document_is_current() -> None:
    assert f"<!-- generated: schema -->\n{markdown()}<!-- end generated -->" in (
        DOCUMENT.read_text(encoding="utf-8")
    ), "`make docs` writes docs/reference/schema.md again"


def test_fact_tables_show_the_key_that_ingest_keeps() -> None:
    assert "| `position` | integer | yes |  |" in markdown()
