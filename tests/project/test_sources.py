"""The house rules that no linter checks."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

import pytest

from tests.support.sources import (
    FOLDERS,
    PACKAGES,
    imported_modules,
    python_files,
    text_of,
    tree_of,
)

MAX_MODULE_LINES = 800
MAX_TEST_MODULE_LINES = 1000
MAX_MODULES_IN_A_FOLDER = 15
MAX_FUNCTION_LINES = 60
# The worker's top, the scheduler's job wrapper, a notifier's send.
CATCHERS = re.compile(
    r"runner/(worker/fork_server|scheduling/job_worker|notifications/dispatcher)\.py"
    r"|db/shared/lasting_steps\.py"
)
# These run under any toolchain's interpreter, Python 3.10 included.
WORKER_SIDE = re.compile(
    r"(runner/(protocol|worker|measure)/.*|db/(errors|records/.*)|models_zoo/.*)\.py"
)
WORKER_PACKAGES = {"torch", "numpy", "compile_hud"}
MODEL_PACKAGES = {"transformers", "diffusers"}
# Imported where they are installed; without them something is missing, and a warning says so.
OPTIONAL_PACKAGES = {
    "models_zoo/kernels/triton_kernels.py": {"triton"},
    "runner/measure/resources/nvml.py": {"pynvml"},
}
NEWER_THAN_3_10 = {"StrEnum", "UTC", "Self", "Never", "assert_never", "LiteralString", "tomllib"}

Check = Callable[[str], None]


def each_of(names: Sequence[str]) -> Callable[[Check], Callable[[], None]]:
    """Return what makes of a check of one file a test of all `names`, which says which are wrong.

    A test for each file and rule would be thousands, most of whose time is pytest's own.
    """
    assert names

    def decorate(check: Check) -> Callable[[], None]:
        def test() -> None:
            wrong = {}
            for name in names:
                try:
                    check(name)
                except (AssertionError, SyntaxError) as error:
                    wrong[name] = str(error)
            assert not wrong

        test.__name__ = check.__name__
        return test

    return decorate


every_file = each_of(python_files(*FOLDERS))
every_packaged_file = each_of(python_files(*PACKAGES))
every_worker_file = each_of(
    [name for name in python_files(*PACKAGES) if WORKER_SIDE.fullmatch(name)]
)


@every_file
def test_module_is_short(name: str) -> None:
    limit = MAX_TEST_MODULE_LINES if name.startswith("tests/") else MAX_MODULE_LINES
    assert len(text_of(name).splitlines()) <= limit


def test_a_folder_has_few_modules() -> None:
    folders = Counter(
        str(PurePath(name).parent)
        for name in python_files(*PACKAGES)
        if not name.endswith("__init__.py")
    )
    assert {name for name, num in folders.items() if num > MAX_MODULES_IN_A_FOLDER} == set()


@every_file
def test_functions_are_short(name: str) -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for node in _functions(tree_of(name))
        if (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long


@every_packaged_file
def test_changes_are_written_in_one_way(name: str) -> None:
    # `signed` of db/shared/text.py spares a zero the sign that rounding leaves.
    assert name == "db/shared/text.py" or not re.search(r":\+\.\S*[f%]\}", text_of(name))


@every_packaged_file
def test_no_first_party_import_hides_in_a_function(name: str) -> None:
    hidden = {
        module
        for function in _functions(tree_of(name))
        for module in imported_modules(function)
        if module.partition(".")[0] == "compile_hud"
    }
    assert not hidden


@every_file
def test_our_packages_have_one_import_name(name: str) -> None:
    roots = {module.partition(".")[0] for module in imported_modules(tree_of(name))}
    assert not roots & set(PACKAGES)


@every_packaged_file
def test_exceptions_are_swallowed_wholesale_in_named_modules_only(name: str) -> None:
    swallowing = [
        handler.lineno
        for handler in ast.walk(tree_of(name))
        if isinstance(handler, ast.ExceptHandler)
        and _catches_everything(handler)
        and not isinstance(handler.body[-1], ast.Raise)
    ]
    assert not swallowing or CATCHERS.fullmatch(name)


@each_of([name for name in python_files(*FOLDERS) if name.endswith("/__init__.py")])
def test_package_files_are_empty(name: str) -> None:
    assert text_of(name) == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_report_that_they_are_typed(package: str) -> None:
    assert text_of(f"{package}/py.typed") == ""


@every_worker_file
def test_worker_side_parses_on_python_3_10(name: str) -> None:
    ast.parse(text_of(name), filename=name, feature_version=(3, 10))


@every_worker_file
def test_worker_side_needs_only_torch_and_the_model(name: str) -> None:
    allowed = set(sys.stdlib_module_names) | WORKER_PACKAGES
    if name.startswith("models_zoo/"):
        allowed |= MODEL_PACKAGES
    used = {module.partition(".")[0] for module in imported_modules(tree_of(name))}
    assert used - OPTIONAL_PACKAGES.get(name, set()) <= allowed


@pytest.mark.parametrize("name", OPTIONAL_PACKAGES)
def test_an_optional_package_may_be_absent(name: str) -> None:
    guarded = {
        alias.name.partition(".")[0]
        for statement in _guarded(tree_of(name))
        if isinstance(statement, ast.Import)
        for alias in statement.names
    }
    assert guarded == OPTIONAL_PACKAGES[name]


def _guarded(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield what stands under `try:` and under `if HAS_NAME:`."""
    for node in ast.walk(tree):
        match node:
            case ast.Try(body=body):
                yield from body
            case ast.If(test=ast.Name(id=name), body=body) if name.startswith("HAS_"):
                yield from body


@every_worker_file
def test_worker_side_uses_nothing_newer_than_python_3_10(name: str) -> None:
    tree = tree_of(name)
    # What stands under `if sys.version_info ...:` has an alternative for older versions.
    guarded = {
        id(inner)
        for node in tree.body
        if isinstance(node, ast.If) and "version_info" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    imports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in guarded
    ]
    names = {
        alias.name
        for node in imports
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("compile_hud"))
        for alias in node.names
    }
    assert not names & NEWER_THAN_3_10


def test_every_exception_is_read_by_a_test() -> None:
    classes = {
        node.name: name
        for name in python_files(*PACKAGES)
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.ClassDef) and _is_exception(node)
    }
    tests = "\n".join(text_of(name) for name in python_files("tests"))
    assert classes
    unread = {f"{path} {name}" for name, path in classes.items() if name not in tests}
    assert not unread


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"})


def _is_exception(node: ast.ClassDef) -> bool:
    bases = [ast.unparse(base) for base in node.bases]
    return any(base.endswith(("Error", "Exception")) for base in bases)
