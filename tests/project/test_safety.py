"""The product never runs what it was given to read: ruff's rules `S`, and calls they miss."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from compile_hud.app.data.operations import MAX_AGE_S
from compile_hud.app.server.connection_limit import MAX_CONNECTIONS, MAX_MESSAGE_BYTES
from compile_hud.app.server.trend_image_routes import MAX_WAITING
from compile_hud.db.shared.quantities import LARGEST, SMALLEST
from compile_hud.runner.files.json_files import MAX_JSON_BYTES
from compile_hud.runner.files.nesting import MAX_DEPTH
from compile_hud.runner.interop.importers.vocabulary import MAX_NUMBER, MIN_NUMBER
from compile_hud.runner.notifications.http_client import MAX_ANSWER_BYTES, TOTAL_S
from compile_hud.runner.traces.chrome_trace import MAX_UNPACKED_BYTES, MAX_VALUE_BYTES
from tests.support.sources import ROOT, python_files, text_of

# Ruff knows pickle, marshal and shelve; these read the same format.
UNSAFE_MODULES = {"cloudpickle", "dill", "joblib"}


def unsafe_loads(text: str) -> list[int]:
    """Return the lines in `text`, the source of a module, that may run what they read."""
    tree = ast.parse(text)
    imports = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and UNSAFE_MODULES & {name.partition(".")[0] for name in _imported(node)}
    ]
    calls = [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_unsafe(node)
    ]
    return imports + calls


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


def _is_unsafe(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    keywords = {item.arg: ast.unparse(item.value) for item in node.keywords}
    return (
        (name == "torch.load" and keywords.get("weights_only") != "True")
        or name
        in {
            "np.load",
            "numpy.load",
            "compile",
            "__import__",
            "subprocess.getoutput",
            "ssl._create_unverified_context",
        }
        or keywords.get("allow_pickle", "False") != "False"
        or keywords.get("shell", "False") != "False"
    )


def test_no_file_of_the_product_loads_what_may_run() -> None:
    """Hold what ruff's rules `S` do not: they know torch.load without `weights_only` alone."""
    lines = {
        name: unsafe
        for name in python_files("runner", "app", "db", "models_zoo")
        if (unsafe := unsafe_loads(text_of(name)))
    }
    assert not lines


@pytest.mark.parametrize(
    ("text", "is_unsafe"),
    [
        ("import cloudpickle", True),
        ("from joblib import load", True),
        ("ssl._create_unverified_context()", True),
        ("torch.load(x)", True),
        ("torch.load(x, weights_only=False)", True),
        ("torch.load(x, weights_only=flag)", True),
        ("numpy.load(x)", True),
        ("read(x, allow_pickle=True)", True),
        ("subprocess.run(x, shell=flag)", True),
        ("compile(x, y, 'exec')", True),
        ("torch.load(x, weights_only=True)", False),
        ("re.compile(x)", False),
        ("run(x, shell=False)", False),
    ],
)
def test_an_unsafe_call_is_noticed(text: str, is_unsafe: bool) -> None:
    assert bool(unsafe_loads(text)) is is_unsafe


def test_ruff_holds_the_rest() -> None:
    """Let ruff see one example of each rule that this module held before."""
    text = """from __future__ import annotations

import marshal
import os
import pickle
import shelve
import subprocess
import tempfile

import httpx
import yaml

eval(x)
exec(x)
yaml.load(x)
yaml.unsafe_load(x)
pickle.loads(x)
marshal.loads(x)
shelve.open(x)
tempfile.mktemp()
os.system(x)
subprocess.run(x, shell=True)
httpx.get(x, verify=False)
"""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--output-format=concise", "--quiet",
         "--stdin-filename=runner/example.py", "-"],
        input=text, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    rules = set(re.findall(r" (S\d+) ", done.stdout))
    assert rules >= {"S301", "S302", "S306", "S307", "S102", "S501", "S506", "S602", "S605"}


def test_limits_are_described_as_they_are() -> None:
    text = text_of("docs/explanation/security.md")
    assert f"job | {MAX_JSON_BYTES >> 20} MiB |" in text
    assert f"an import | {MAX_DEPTH} levels |" in text
    assert f"{SMALLEST:g} to {LARGEST:g} " in text
    assert f"imports {MIN_NUMBER:g} to {MAX_NUMBER:g}" in text
    assert f"at most {MAX_CONNECTIONS:,} connections" in text
    assert f"at most {MAX_MESSAGE_BYTES >> 20} MiB" in text
    assert f"{MAX_WAITING} wait at most" in text
    assert f"unpacked | {MAX_UNPACKED_BYTES >> 30} GiB, and {MAX_VALUE_BYTES >> 20} MiB" in text
    assert f"receiver | {MAX_ANSWER_BYTES >> 10} KiB and {TOTAL_S:g} seconds |" in text
    every_s = f"once in {MAX_AGE_S:g} seconds at most"
    assert every_s in text_of("docs/how-to/operations.md")
