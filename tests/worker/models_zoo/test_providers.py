"""Models of timm and torchvision, with packages of these names that a test writes itself."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import nn

from compile_hud.db.records.results import Outcome
from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.errors import UnavailableModelError, UnknownNameError
from compile_hud.models_zoo.catalog.providers import provided_models
from compile_hud.runner.measure.launch import run_launch
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings

TIMM = """
    from types import SimpleNamespace
    from torch import nn

    def list_models():
        return ["resnet18", "resnet50"]

    def get_pretrained_cfg(name):
        return SimpleNamespace(input_size=(3, 8, 8)) if name == "resnet50" else None

    class DropPath(nn.Identity):
        drop_prob = 0.1

    def create_model(name, *, pretrained):
        assert not pretrained
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Dropout(0.5), DropPath())
"""
TORCHVISION = """
    from enum import Enum
    from functools import partial
    from types import SimpleNamespace
    from torch import nn

    class Weights(Enum):
        DEFAULT = SimpleNamespace(transforms=partial(dict, crop_size=6))

        @property
        def transforms(self):
            return self.value.transforms

    def list_models(module):
        assert module.__name__ == "torchvision.models"
        return ["alexnet", "swin_t"]

    def get_model_weights(name):
        return Weights

    def get_model(name, *, weights):
        assert weights is None
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout2d(0.5))
"""
PACKAGES = {"timm": "timm/__init__.py", "torchvision": "torchvision/models.py"}


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, in front of what is installed."""
    monkeypatch.syspath_prepend(tmp_path)
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_provider(name)}
    yield tmp_path
    for name in [name for name in sys.modules if _is_provider(name)]:
        del sys.modules[name]
    sys.modules.update(saved)


def _is_provider(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def install(site: Path, package: str, source: str) -> None:
    (site / package).mkdir()
    (site / package / "__init__.py").write_text("", encoding="utf-8")
    (site / PACKAGES[package]).write_text(textwrap.dedent(source), encoding="utf-8")


def build(name: str) -> nn.Module:
    row = provided_models([name])[name]
    return load_builder(row.build).build(row.sizes["tiny"].config)


def shape_of_inputs(name: str) -> tuple[int, ...]:
    row = provided_models([name])[name]
    inputs = load_builder(row.build).example_inputs(row.sizes["tiny"].config, seed=0)
    return tuple(inputs["x"].shape)


@pytest.mark.parametrize(
    ("package", "source", "name"),
    [("timm", TIMM, "timm/resnet50"), ("torchvision", TORCHVISION, "torchvision/swin_t")],
)
def test_a_model_of_a_provider_trains_without_dropout(
    site: Path, package: str, source: str, name: str
) -> None:
    install(site, package, source)
    model, images = build(name).train(), torch.ones(shape_of_inputs(name))
    assert torch.equal(model(images), model(images))
    assert {getattr(module, "drop_prob", 0.0) for module in model.modules()} == {0.0}


def test_two_builds_of_a_model_of_a_provider_are_equal(site: Path) -> None:
    install(site, "torchvision", TORCHVISION)
    first, second = (build("torchvision/swin_t").state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_images_have_the_size_that_the_provider_reports(site: Path) -> None:
    install(site, "timm", TIMM)
    install(site, "torchvision", TORCHVISION)
    assert shape_of_inputs("timm/resnet50") == (2, 3, 8, 8)
    assert shape_of_inputs("timm/resnet18") == (2, 3, 224, 224)
    assert shape_of_inputs("torchvision/swin_t") == (2, 3, 6, 6)


def test_a_tag_of_published_weights_is_part_of_the_name(site: Path) -> None:
    install(site, "timm", TIMM)
    assert isinstance(build("timm/resnet50.a1_in1k"), nn.Module)


@pytest.mark.parametrize(
    "name",
    [
        "timm/resnet500",
        "torchvision/xyz",
    ],
)
def test_a_model_that_a_provider_lacks_is_reported(
    site: Path, name: str, words: SnapshotAssertion
) -> None:
    install(site, "timm", TIMM)
    install(site, "torchvision", TORCHVISION)
    with pytest.raises(UnknownNameError) as caught:
        build(name)
    assert str(caught.value) == words


@pytest.mark.parametrize("package", PACKAGES)
def test_a_provider_that_is_missing_is_reported_with_how_to_install_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnavailableModelError) as caught:
        build(f"{package}/resnet50")
    assert str(caught.value).startswith(f"{package} cannot be imported: ")
    assert f"`{sys.executable} -m pip install {package}`" in str(caught.value)


def test_a_provider_built_for_another_torch_is_reported(
    site: Path, words: SnapshotAssertion
) -> None:
    install(site, "torchvision", "raise RuntimeError('operator torchvision::nms does not exist')")
    with pytest.raises(UnavailableModelError) as caught:
        build("torchvision/resnet50")
    assert str(caught.value) == words


def test_a_case_whose_provider_is_missing_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    selection = Selection(models=("timm/resnet50",), modes=("eager",), shapes=("tiny",))
    (planned,) = make_plan(selection, catalog={}, device="cpu")
    request = LaunchRequest(
        case=planned.case,
        workload=planned.workload,
        settings=MeasureSettings(),
        launch=0,
        cache_dir="",
        report_path="",
        log_path="",
    )
    report = run_launch(request)
    assert report.outcome is Outcome.SKIPPED
    assert "pip install timm" in report.reason
    assert report.metrics == {}
