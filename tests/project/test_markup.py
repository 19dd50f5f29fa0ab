"""Markup is in app/ui/templates, whose templates escape each value."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from jinja2 import nodes

from compile_hud.app.ui.templates.environment import environment
from tests.support.sources import ROOT, python_files, text_of, tree_of

TAG = re.compile(r"(?<!\?P)<[/!]?[a-z][\w-]*(?=[\s/>]|\Z)", re.IGNORECASE)
# Literals with a tag, and why they are no markup of ours.
ALLOWED = {
    # Places in the document of Streamlit, where templates are inserted.
    "app/server/page_routes.py": {"<title>Streamlit</title>", "<body>", "</head>", "<head>"},
    # The filter for long words that a line may break.
    "app/ui/templates/environment.py": {"<wbr>"},
}
TEMPLATES = sorted((ROOT / "app/ui/templates").glob("*.html"))
each_template = pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)


def markup_in(tree: ast.Module) -> set[str]:
    """Return the literals with a tag in a module, without docstrings."""
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in texts
        and TAG.search(node.value)
    }


def test_no_module_of_the_dashboard_has_markup() -> None:
    literals = {name: markup_in(tree_of(name)) for name in python_files("app")}
    assert {name: texts for name, texts in literals.items() if texts} == ALLOWED


@pytest.mark.parametrize(
    ("source", "has_markup"),
    [
        ("x = f'<div class=\"{name}\">'", True),
        ("x = '</li>' + text", True),
        ("x = 'see <a ' + href", True),
        ("x = '<br/>'", True),
        ("x = '<!doctype html>'", True),
        ("x = 'a < b'", False),
        ("x = 'a <- b'", False),
        ("def f():\n    '''Return a <table>.'''", False),
    ],
)
def test_markup_is_noticed(source: str, has_markup: bool) -> None:
    assert bool(markup_in(ast.parse(source))) is has_markup


@each_template
def test_a_template_escapes_each_value(path: Path) -> None:
    tree = environment().parse(path.read_text(encoding="utf-8"))
    assert environment().autoescape is True
    assert not list(tree.find_all(nodes.ScopedEvalContextModifier))
    assert not {node.name for node in tree.find_all(nodes.Filter)} & {"safe", "forceescape"}


@each_template
def test_each_macro_is_used(path: Path) -> None:
    tree = environment().parse(path.read_text(encoding="utf-8"))
    macros = {node.name for node in tree.find_all(nodes.Macro)}
    rendered = {
        name
        for module in python_files("app")
        for name in re.findall(rf'render\(\s*"{path.name}",\s*"(\w+)"', text_of(module))
    }
    called = {
        node.node.name
        for other in TEMPLATES
        for node in environment().parse(other.read_text(encoding="utf-8")).find_all(nodes.Call)
        if isinstance(node.node, nodes.Name)
    }
    assert rendered <= macros
    assert macros <= rendered | called
