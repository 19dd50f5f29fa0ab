"""Errors in a user's own model have their own traceback, without our frames."""

from __future__ import annotations

import importlib
import site
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.runner.measure import user_traceback as traceback_module
from compile_hud.runner.measure.compile.source_locations import failure_reason
from compile_hud.runner.measure.user_traceback import UserCodeError, user_traceback

GOOD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

def build(config):
    return nn.Sequential(Net())

def example_inputs(config, *, seed):
    return {"input": torch.ones(2, 4)}
"""


def caught(act: Callable[[], object], *, build: str) -> tuple[BaseException, UserCodeError]:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever the user's code raises
        act()
    user_error = user_traceback(raised.value, build=build)
    assert user_error is not None
    return raised.value, user_error


def write(folder: Path, *, old: str = "", new: str = "") -> str:
    path = folder / "bench.py"
    path.write_text(GOOD.replace(old, new) if old else GOOD, encoding="utf-8")
    return str(path)


def line_of(build: str, text: str) -> int:
    lines = Path(build).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def assert_theirs_only(user_error: UserCodeError, *, build: str) -> None:
    frames = [line for line in user_error.text.splitlines() if line.startswith('  File "')]
    # This test calls where the worker would.
    files = [line for line in frames if __file__ not in line]
    assert files != []
    assert all(f'"{build}"' in line for line in files), user_error.text


def test_a_mistake_at_import_ends_at_its_line(tmp_path: Path, words: SnapshotAssertion) -> None:
    build = write(tmp_path, old="import torch\n", new="import torch\nimport no_such_thing\n")
    error, user_error = caught(lambda: load_builder(build), build=build)
    assert user_error.text == words
    assert user_error.location == "bench.py:3 in <module>"
    reason = failure_reason(error, location=user_error.location)
    assert reason.endswith("(at bench.py:3 in <module>)")
    assert reason == words


def test_what_python_cannot_read_is_shown_with_its_line(tmp_path: Path) -> None:
    build = write(tmp_path, old="class Net(nn.Module):", new="class Net(nn.Module:")
    _, user_error = caught(lambda: load_builder(build), build=build)
    assert user_error.text.startswith(f'  File "{build}", line 5')
    assert "SyntaxError" in user_error.text
    assert user_error.location == ""


@pytest.mark.parametrize("function", ["build", "example_inputs"])
def test_a_mistake_in_a_function_ends_at_its_line(tmp_path: Path, function: str) -> None:
    old = "    return nn.Seq" if function == "build" else "    return {"
    build = write(tmp_path, old=old, new=f"    config['width']\n{old}")
    builder = load_builder(build)
    act = {
        "build": lambda: builder.build({}),
        "example_inputs": lambda: builder.example_inputs({}, seed=0),
    }
    _, user_error = caught(act[function], build=build)
    assert_theirs_only(user_error, build=build)
    assert user_error.text.endswith("KeyError: 'width'\n")
    line = line_of(build, "config['width']")
    assert user_error.location == f"bench.py:{line} in {function}"


def test_a_mistake_in_forward_ends_at_its_line_and_not_in_torch(tmp_path: Path) -> None:
    build = write(tmp_path, old="self.layer(x)", new="self.layer(x.reshape(4, 2))")
    builder = load_builder(build)
    model, inputs = builder.build({}), builder.example_inputs({}, seed=0)
    _, user_error = caught(lambda: model(**inputs), build=build)
    assert_theirs_only(user_error, build=build)
    assert user_error.text.splitlines()[-1].startswith("RuntimeError: mat1 and mat2 ")
    assert user_error.location == f"bench.py:{line_of(build, 'reshape')} in forward"


def test_a_mistake_that_only_compiling_meets_ends_at_its_line(tmp_path: Path) -> None:
    forward = "torch.compiler.is_compiling() and x.reshape(3, 3)\n        return self.layer(x)"
    build = write(tmp_path, old="return self.layer(x)", new=forward)
    builder = load_builder(build)
    model, inputs = builder.build({}), builder.example_inputs({}, seed=0)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    _, user_error = caught(lambda: compiled(**inputs), build=build)
    assert_theirs_only(user_error, build=build)
    assert user_error.location == f"bench.py:{line_of(build, 'is_compiling')} in forward"
    assert "from user code" not in user_error.text


def test_an_installed_package_of_the_user_is_user_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "own_pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "bench.py").write_text(GOOD + "raise OSError('no weights')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    _, user_error = caught(lambda: load_builder("own_pkg.bench"), build="own_pkg.bench")
    last = len(GOOD.splitlines()) + 1
    assert user_error.location == f"bench.py:{last} in <module>"


def test_a_virtual_environment_is_no_user_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / ".venv" / "site-packages"
    (packages / "helpful").mkdir(parents=True)
    (packages / "helpful" / "__init__.py").write_text("def help():\n    raise OSError('no')\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(packages)])
    build = write(tmp_path, old="    return nn.Seq", new="    helpful.help()\n    return nn.Seq")
    path = Path(build)
    path.write_text(f"import helpful\n{path.read_text()}")
    _, user_error = caught(lambda: load_builder(build).build({}), build=build)
    assert_theirs_only(user_error, build=build)
    assert user_error.location == f"bench.py:{line_of(build, 'helpful.help')} in build"


def test_a_file_in_the_folder_of_the_runner_is_the_users_and_the_runner_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = tmp_path / "runner"
    runner.mkdir()
    (runner / "calling.py").write_text("def call(build):\n    return build({})\n")
    monkeypatch.setattr(traceback_module, "_OUR_ROOT", tmp_path)
    monkeypatch.syspath_prepend(str(runner))
    calling = importlib.import_module("calling")
    build = write(tmp_path, old="    return nn.Seq", new="    config['width']\n    return nn.Seq")
    _, user_error = caught(lambda: calling.call(load_builder(build).build), build=build)
    assert_theirs_only(user_error, build=build)


def test_what_is_no_mistake_of_the_users_keeps_its_whole_traceback(tmp_path: Path) -> None:
    build = write(tmp_path)
    assert user_traceback(RuntimeError("no compiler"), build=build) is None
    with pytest.raises(ImportError) as raised:
        load_builder(str(tmp_path / "no_such.py"))
    assert user_traceback(raised.value, build="compile_hud.models_zoo.encoders.bert") is None
