"""The forms of a `build` string, and the errors of wrong ones."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.building.loader import ModelLoadError, check_names, load_builder

WHOLE = """
    import torch

    def build(config):
        return torch.nn.Linear(config["width"], 3)

    def example_inputs(config, *, seed):
        return {"input": torch.full((2, config["width"]), float(seed))}
"""
LOSS = """
    def loss(outputs, inputs):
        return outputs.sum()
"""
FACTORY = """
    import torch

    def make(config):
        return torch.nn.Linear(4, 3), {"input": torch.randn(2, 4)}
"""


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Stand in an empty folder, with imports that are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    modules_before = set(sys.modules)
    yield
    for name in set(sys.modules) - modules_before:
        del sys.modules[name]


def write(path: str, *sources: str) -> None:
    file = Path(path)
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(textwrap.dedent(source) for source in sources), encoding="utf-8")


def message_of(build: str) -> str:
    with pytest.raises(ModelLoadError) as caught:
        load_builder(build)
    return str(caught.value)


@pytest.mark.parametrize("build", ["bench.py", "./bench.py", "bench"])
def test_a_module_in_the_working_directory_is_importable(build: str) -> None:
    write("bench.py", WHOLE)
    builder = load_builder(build)
    assert builder.build({"width": 5}).in_features == 5
    assert builder.example_inputs({"width": 5}, seed=7)["input"].tolist() == [[7.0] * 5] * 2
    assert builder.loss is None


def test_an_absolute_path_is_importable_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sub/bench.py", WHOLE)
    monkeypatch.chdir("/")
    assert load_builder(f"{tmp_path}/sub/bench.py").build({"width": 5}) is not None


def test_a_file_imports_what_lies_next_to_it() -> None:
    write("sub/neighbour_of_bench.py", WHOLE)
    write("sub/bench.py", "from neighbour_of_bench import build, example_inputs")
    assert load_builder("sub/bench.py").build({"width": 5}) is not None


def test_a_file_in_a_subfolder_imports_packages_of_the_working_directory() -> None:
    write("own_widths/__init__.py", "WIDTH = 4")
    write("models/wide.py", WHOLE, "\nfrom own_widths import WIDTH\n")
    assert load_builder("models/wide.py").build({"width": 4})


def test_a_file_called_torch_does_not_stand_in_for_torch() -> None:
    write("torch.py", WHOLE)
    assert load_builder("torch.py").build({"width": 5}) is not None
    assert sys.modules["torch"] is torch


def test_a_loss_of_its_own_is_stored() -> None:
    write("bench.py", WHOLE, LOSS)
    loss = load_builder("bench.py").loss
    assert loss is not None
    assert float(loss(torch.ones(3), {})) == 3.0


def test_an_object_with_the_same_attributes_will_do() -> None:
    write("bench.py", WHOLE, LOSS, "class Bench: pass\n")
    for name in ("build", "example_inputs", "loss"):
        write("bench.py", Path("bench.py").read_text(), f"Bench.{name} = staticmethod({name})\n")
    builder = load_builder("bench.py:Bench")
    assert builder.loss is not None
    assert builder.build({"width": 5}) is not None
    assert builder.example_inputs({"width": 5}, seed=0).keys() == {"input"}


def test_a_factory_gives_the_same_weights_and_inputs_each_time() -> None:
    write("bench.py", FACTORY, LOSS)
    builder = load_builder("bench:make")
    torch.manual_seed(1)
    first = builder.build({}).state_dict()
    inputs = builder.example_inputs({}, seed=0)
    torch.manual_seed(2)
    assert all(
        torch.equal(value, first[key]) for key, value in builder.build({}).state_dict().items()
    )
    assert torch.equal(builder.example_inputs({}, seed=0)["input"], inputs["input"])
    assert not torch.equal(builder.example_inputs({}, seed=1)["input"], inputs["input"])
    assert builder.loss is not None


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        ("torch.nn.Linear(4, 3)", "Linear"),
        ("(torch.nn.Linear(4, 3), torch.zeros(2, 4))", "tuple"),
        ("(torch.nn.Linear(4, 3), {'input': 1})", "tuple"),
        ("(print, {'input': torch.zeros(2, 4)})", "tuple"),
        ("(torch.nn.Linear(4, 3), {}, None)", "tuple"),
    ],
)
def test_a_factory_must_return_a_pair(returned: str, kind: str, words: SnapshotAssertion) -> None:
    write("bench.py", f"import torch\ndef make(config):\n    return {returned}\n")
    with pytest.raises(ModelLoadError) as caught:
        load_builder("bench.py:make").build({})
    assert f" {kind}," in str(caught.value)
    assert str(caught.value) == words


def test_a_missing_module_is_one_clear_error(words: SnapshotAssertion) -> None:
    assert message_of("no_such_package.bench") == words


def test_a_missing_file_is_one_clear_error(tmp_path: Path, words: SnapshotAssertion) -> None:
    message = message_of("bench.py")
    assert str(tmp_path / "bench.py") in message
    assert message == words


@pytest.mark.parametrize(
    ("source", "error"),
    [("import no_such_package", ImportError), ("def", SyntaxError), ("1 / 0", ZeroDivisionError)],
)
def test_the_users_own_exception_is_chained(
    source: str, error: type[Exception], words: SnapshotAssertion
) -> None:
    write("bench.py", source)
    with pytest.raises(ModelLoadError) as caught:
        load_builder("bench.py")
    assert str(caught.value) == words
    assert isinstance(caught.value.__cause__, error)


def test_an_attribute_that_is_not_there_is_answered_with_those_that_are(
    words: SnapshotAssertion,
) -> None:
    write("bench.py", "def make(config): ...\n_private = 1\n")
    assert message_of("bench.py:mak") == words
    write("empty.py", "")
    assert message_of("empty.py:make") == words


def test_a_module_without_the_two_functions_names_which(words: SnapshotAssertion) -> None:
    write("bench.py", "build = 1\nloss = 2\n")
    assert message_of("bench.py") == words
    assert message_of("bench.py:loss") == words


def test_a_build_string_without_a_module_names_what_to_write(words: SnapshotAssertion) -> None:
    assert message_of(":make") == words


@pytest.mark.parametrize(
    "inputs",
    [{"x": torch.ones(2)}, {"input": torch.ones(2), "x": torch.ones(2)}, {}],
)
def test_inputs_unknown_to_forward_are_reported_before_anything_runs(
    inputs: dict[str, torch.Tensor], words: SnapshotAssertion
) -> None:
    with pytest.raises(ModelLoadError) as caught:
        check_names(torch.nn.Linear(2, 2), inputs, build="bench.py")
    assert str(caught.value) == words


def test_inputs_that_forward_takes_or_cannot_name_pass() -> None:
    class Unnamed(torch.nn.Module):
        forward = max

    check_names(torch.nn.Linear(2, 2), {"input": torch.ones(2)}, build="bench.py")
    check_names(Unnamed(), {"any": torch.ones(2)}, build="bench.py")
