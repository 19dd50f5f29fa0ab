"""Comments, docstrings and documents name files and modules that exist."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

import pytest

from tests.support.sources import FOLDERS, ROOT, documents, python_files, text_of, tree_of

PATH = re.compile(
    r"(?<![\w/.{}<>*-])"
    r"(?:app|benchmarks|db|models_zoo|runner|tests)/[\w./-]*\.(?:py|js|html|md)\b(?![\w*<{])"
)
DOTTED = re.compile(
    r"(?<![\w./-])(?:compile_hud\.)?(?:app|benchmarks|db|models_zoo|runner|tests)(?:\.[A-Za-z_]\w*)+"
)
# A line of a comment, or the end of a line of code. Such signs in a text count as well: a tokenizer
# would take 20 s.
COMMENT = re.compile(r"(?:^ *|  )#[^\n]*", re.MULTILINE)
FILE = re.compile(r"(?<![\w./*{}<>-])[a-z_]\w*\.(?:py|js)\b")

# Files that the reader of a document writes, or finds in an earlier commit.
PLACEHOLDERS = {
    "db/migrations/m0014_keep_annotations.py",
    "db/migrations/mNNNN_what_it_does.py",
    "models_zoo/FAMILY/NAME.py",
}
# Files of users, of Alembic and of Python. The reference cases are pinned with their docstrings.
OTHER_FILES = {
    "bench.py",
    "env.py",
    "json.py",
    "net.py",
    "pickle.py",
    "reference.py",
    "socket.py",
    "torch.py",
}
SOURCES = tuple(
    name for name in python_files(*FOLDERS) if name != "tests/project/test_module_references.py"
)
SCRIPTS = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "app").rglob("*.js")))
DOCUMENTS = tuple(
    name for name in documents() if name != "CHANGELOG.md" and not name.startswith("docs/adr/")
)


@functools.cache
def prose(name: str) -> str:
    """Return the comments and docstrings of a Python file, or the whole of another one."""
    return "\n".join(_parts(name)) if name.endswith(".py") else text_of(name)


def _parts(name: str) -> Iterator[str]:
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree_of(name)):
        if isinstance(node, with_docstring):
            yield ast.get_docstring(node) or ""
    yield from COMMENT.findall(text_of(name))


def is_defined(dotted: str) -> bool:
    """Return whether a dotted name is a package, a module or what a module defines."""
    parts = dotted.removeprefix("compile_hud.").split(".")
    folder = ROOT
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    if not parts:
        return True
    module = (folder / parts[0]).with_suffix(".py")
    if not module.is_file():
        return False
    return len(parts) == 1 or parts[1] in _definitions(str(module.relative_to(ROOT)))


@functools.cache
def _definitions(name: str) -> frozenset[str]:
    return frozenset(
        node.name
        for node in ast.walk(tree_of(name))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    )


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("compile_hud.db.store", True),
        ("compile_hud.db.errors.StoreLocked", True),
        ("runner.analysis", True),
        ("compile_hud.runner.paired", False),
        ("compile_hud.db.errors.HeldByPattern", False),
    ],
)
def test_a_dotted_name_is_looked_up(dotted: str, *, expected: bool) -> None:
    assert is_defined(dotted) is expected


@pytest.mark.parametrize("names", [SOURCES, SCRIPTS, DOCUMENTS], ids=["python", "script", "page"])
def test_paths_exist(names: tuple[str, ...]) -> None:
    missing = [
        (name, path)
        for name in names
        for path in PATH.findall(prose(name))
        if path not in PLACEHOLDERS and not (ROOT / path).is_file()
    ]
    assert missing == []


@pytest.mark.parametrize("names", [SOURCES, DOCUMENTS], ids=["python", "page"])
def test_dotted_names_exist(names: tuple[str, ...]) -> None:
    missing = [
        (name, dotted)
        for name in names
        for dotted in DOTTED.findall(prose(name))
        if not is_defined(dotted)
    ]
    assert missing == []


def test_comments_name_files_of_the_project() -> None:
    files = {name.rpartition("/")[2] for name in (*python_files(*FOLDERS), *SCRIPTS)} | OTHER_FILES
    missing = [
        (name, file) for name in SOURCES for file in FILE.findall(prose(name)) if file not in files
    ]
    assert missing == []
