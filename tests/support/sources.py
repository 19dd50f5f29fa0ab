"""The project's own files, as text and as syntax trees."""

from __future__ import annotations

import ast
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "db", "models_zoo", "runner")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", ".ci")


@cache
def python_files(*folders: str) -> tuple[str, ...]:
    """Return the paths of all Python files in `folders`, relative to the project."""
    return tuple(
        sorted(
            str(path.relative_to(ROOT))
            for folder in folders
            for path in (ROOT / folder).rglob("*.py")
        )
    )


@cache
def text_of(name: str) -> str:
    """Return the text of a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree_of(name: str) -> ast.Module:
    """Return the syntax tree of a Python file of the project."""
    return ast.parse(text_of(name), filename=name)


def module_of(name: str) -> ModuleType:
    """Return a script of the project, which lies in no package, as a module."""
    # Python adds the folder of a script, which may import its neighbours.
    if (folder := str((ROOT / name).parent)) not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(f"script_{Path(name).stem}", ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Records look up the module that defines them.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def imported_modules(tree: ast.AST) -> set[str]:
    """Return the modules that the statements below `tree` import; `from a.b import c` is `a.b`."""
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    return modules


def documents() -> tuple[str, ...]:
    """Return the paths of all documents for users, relative to the project."""
    patterns = ("*.md", "docs/**/*.md", "models_zoo/*.md", "benchmarks/*.md")
    return tuple(
        sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))
    )


def imported_names(tree: ast.AST) -> set[str]:
    """Return the names that the statements below `tree` import: `a.b` and `a.b.c` of `from a.b
    import c`.
    """
    names = imported_modules(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names
