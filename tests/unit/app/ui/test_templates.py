"""Templates: values are escaped, layout of a template is no text of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from compile_hud.app.ui.html import collapsible, table
from compile_hud.app.ui.templates import environment as module
from compile_hud.app.ui.templates.environment import (
    LONG_LIMIT,
    SENTENCE_LIMIT,
    TEXT_LIMIT,
    compile_all,
    environment,
    render,
)

TEMPLATES = Path(module.__file__).parent


def drawn(source: str, **values: object) -> str:
    """Return the text of a template."""
    return environment().from_string(source).render(values)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<ul>\n  <li>\n    {{ x }}\n  </li>\n</ul>\n", "<ul><li>1</li></ul>"),
        ("<a\n  href=''\n  class=''>b</a>", "<a href='' class=''>b</a>"),
        ("{% if x %}\n  <b>yes</b>\n{% endif %}\n", "<b>yes</b>"),
        ("two\n  words", "two words"),
        ("{{ x }} {{ x }}", "1 1"),
    ],
)
def test_lines_of_a_template_are_no_text(source: str, text: str) -> None:
    assert drawn(source, x=1) == text


@pytest.mark.parametrize(
    ("name", "limit"),
    [("text", TEXT_LIMIT), ("sentence", SENTENCE_LIMIT), ("long_text", LONG_LIMIT)],
)
def test_a_filter_cuts_a_text_and_marks_the_cut(name: str, limit: int) -> None:
    assert drawn(f"{{{{ x|{name} }}}}", x="y" * limit) == "y" * limit
    shown = drawn(f"{{{{ x|{name} }}}}", x="y" * (limit + 1))
    assert (len(shown), shown[-4:]) == (limit, "y...")


def test_text_in_place_of_markup_is_escaped() -> None:
    assert "&lt;b&gt;" in render("parts.html", "collapsible", summary="a", content="<b>")
    assert "<b></b>" in collapsible("a", Markup("<b></b>"))


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'style'"):
        render("parts.html", "chips", texts=["a"])
    with pytest.raises(UndefinedError, match="'order'"):
        render("table.html", "table", columns=[("", "")], sections=[], label="", style="")


def test_templates_are_read_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_all()
    monkeypatch.setattr(environment().loader, "searchpath", [])
    assert isinstance(table([], [], label="none"), Markup)
    names = [path.name for path in TEMPLATES.glob("*.html")]
    assert names
    assert all(environment().get_template(name) for name in names)
