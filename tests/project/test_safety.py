"""What no line of the product does, whoever writes it: run what it was given to read."""

from __future__ import annotations

import ast

import pytest

from compile_hud.app.data.operations import MAX_AGE_S
from compile_hud.runner.files.json_files import MAX_JSON_BYTES
from compile_hud.runner.notifications.http_client import MAX_ANSWER_BYTES, TOTAL_S
from compile_hud.runner.traces.chrome_trace import MAX_UNPACKED_BYTES, MAX_VALUE_BYTES
from tests.support.sources import python_files, text_of

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "telnetlib"}
CALLS = {"eval", "exec", "compile", "__import__"}
DOTTED = {
    "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "numpy.load", "np.load",
    "tempfile.mktemp", "subprocess.getoutput", "ssl._create_unverified_context",
}  # fmt: skip


def dangers(text: str) -> list[str]:
    """Return what `text`, the source of a module, does of what nobody should."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [item.name for item in node.names if item.name.partition(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            found += called(node)
    return found


def called(node: ast.Call) -> list[str]:
    """Return what is wrong with one call."""
    name = ast.unparse(node.func)
    keywords = {item.arg: ast.unparse(item.value) for item in node.keywords}
    wrong = [name] if name in DOTTED or name in CALLS else []
    if keywords.get("shell", "False") != "False":
        wrong.append(f"{name}(shell=...)")
    if name == "torch.load" and keywords.get("weights_only") != "True":
        wrong.append("torch.load without weights_only=True")
    if keywords.get("verify") == "False" or keywords.get("allow_pickle", "False") != "False":
        wrong.append(f"{name}(...)")
    return wrong


@pytest.mark.parametrize("name", python_files("runner", "app", "db", "models_zoo"))
def test_nothing_that_was_read_is_run(name: str) -> None:
    assert dangers(text_of(name)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import torch.pickle, marshal",
        "eval(x)",
        "yaml.load(x)",
        "subprocess.run(x, shell=True)",
        "subprocess.run(x, shell=flag)",
        "torch.load(x)",
        "torch.load(x, weights_only=False)",
        "numpy.load(x)",
        "get(x, verify=False)",
    ],
)
def test_a_danger_is_noticed(text: str) -> None:
    assert dangers(text)


def test_what_is_like_a_danger_is_none() -> None:
    text = "model.eval()\ntorch.load(x, weights_only=True)\nrun(x, shell=False)\nre.compile(x)"
    assert dangers(text) == []


def test_limits_are_described_as_they_are() -> None:
    text = text_of("docs/security.md")
    assert f"job | {MAX_JSON_BYTES >> 20} MiB |" in text
    assert f"unpacked | {MAX_UNPACKED_BYTES >> 30} GiB, and {MAX_VALUE_BYTES >> 20} MiB" in text
    assert f"receiver | {MAX_ANSWER_BYTES >> 10} KiB and {TOTAL_S:g} seconds |" in text
    every_s = f"once in {MAX_AGE_S:g} seconds at most"
    assert every_s in text_of("docs/operations.md")
