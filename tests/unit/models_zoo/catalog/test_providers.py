"""Models of packages that may be missing, by name."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.catalog import CATALOG, find_models, with_provided
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.providers import provided_models
from compile_hud.runner.planning.plan import make_plan, plan_case
from compile_hud.runner.planning.suites import Selection
from tests.support.fakes import make_catalog


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("timm/resnet50", "compile_hud.models_zoo.vision.from_timm"),
        ("timm/vit_base_patch16_224.dino", "compile_hud.models_zoo.vision.from_timm"),
        ("torchvision/swin_t", "compile_hud.models_zoo.vision.from_torchvision"),
    ],
)
def test_a_name_of_a_provider_is_a_row(name: str, build: str) -> None:
    row = provided_models([name])[name]
    assert (row.name, row.build, list(row.sizes)) == (name, build, ["tiny", "small", "full"])
    for size in row.sizes.values():
        assert size.config["architecture"] == name.partition("/")[2]
        assert size.num_samples == size.config["batch"]


def test_other_names_are_left_to_the_catalog() -> None:
    assert provided_models(["bert", "timm", "b*", "*", "keras/resnet50"]) == {}


@pytest.mark.parametrize("name", ["timm/*", "timm/resnet[0-9]", "torchvision/", "timm/a/b"])
def test_a_glob_of_a_provider_is_refused(name: str, words: SnapshotAssertion) -> None:
    provider = name.partition("/")[0]
    with pytest.raises(UnknownNameError) as caught:
        find_models([name])
    assert caught.value.parameters == {"model": name, "provider": provider}
    assert str(caught.value) == words


def test_models_of_providers_come_after_those_of_the_catalog() -> None:
    models = find_models(["timm/resnet50", "bert"])
    assert [row.name for row in models] == ["bert", "timm/resnet50"]


def test_every_model_is_every_model_of_the_catalog() -> None:
    assert len(find_models(["*"])) == len(CATALOG)


def test_an_unknown_model_is_answered_with_what_is_listed() -> None:
    message = f"no model matches 'xyzzy'. `hud list models` shows all {len(CATALOG)}."
    with pytest.raises(UnknownNameError) as caught:
        find_models(["timm/resnet50", "xyzzy"])
    assert str(caught.value) == message


def test_a_model_of_ones_own_wins_over_a_providers() -> None:
    own = make_catalog("timm/resnet50")
    assert with_provided(own, names=["timm/resnet50"]) == own


def test_a_model_of_a_provider_is_planned_and_planned_again_from_its_case() -> None:
    selection = Selection(models=("timm/resnet50",), modes=("eager",), shapes=("tiny",))
    (planned,) = make_plan(selection, catalog=CATALOG, device="cpu")
    assert planned.case.key == "timm/resnet50/inference/tiny/fp32/eager/cpu"
    assert planned.workload.config == {"architecture": "resnet50", "batch": 2}
    assert plan_case(planned.case, catalog=CATALOG) == planned
