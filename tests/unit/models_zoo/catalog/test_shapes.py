"""Shapes by name: a size with other numbers along its axes, and what they mean for a selection."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.architecture_search import candidate_models
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.shapes import AXES, UnfitShapeError, axes_of, vary
from compile_hud.models_zoo.catalog.spec import ModelSpec, NamedShape, SizeSpec
from compile_hud.runner.config.schema import section_rows
from compile_hud.runner.planning.plan import make_plan, plan_case
from compile_hud.runner.planning.suites import NIGHTLY, Selection
from tests.support.fakes import make_catalog

SMALL = {"batch": 4, "length": 64, "max_length": 128}


def a_model(
    name: str = "bert", *, config: dict[str, int | float | str | bool] | None = None
) -> ModelSpec:
    size = SizeSpec(config=config or SMALL, num_samples=4, num_tokens=256)
    row = make_catalog(name)[name]
    shapes = {
        "serving": NamedShape(size=size, is_tracked=True),
        "grid-b1": NamedShape(size=size),
    }
    return replace(row, sizes=dict.fromkeys(row.sizes, size), shapes=shapes)


def shapes(*names: str, models: tuple[str, ...] = ("*",), device: str = "cpu") -> list[str]:
    vision = replace(a_model("vit", config={"batch": 4, "image_size": 64}), shapes={})
    selection = Selection(models=models, modes=("eager",), shapes=names)
    catalog = {"bert": a_model(), "vit": vision}
    plan = make_plan(selection, catalog=catalog, device=device)
    return [f"{planned.case.model} {planned.case.shape}" for planned in plan]


def test_a_size_with_other_numbers_has_their_samples_and_tokens() -> None:
    size = find_size(CATALOG["bert"], "small-b8-l128")
    assert size.config == {**CATALOG["bert"].sizes["small"].config, "batch": 8, "length": 128}
    assert (size.num_samples, size.num_tokens) == (8, 1024)


@pytest.mark.parametrize(
    ("model", "shape", "num_samples", "num_tokens"),
    [
        ("bert", "small-l128", 4, 512),
        ("nn_transformer", "small-b2-s10-t5", 2, 30),
        ("nn_transformer", "small-t30", 4, 320),
        ("llama_decode", "small-b3-c500", 3, 3),
        ("vit", "small-b2-i32", 2, None),
        ("clip", "small-b2-l16", 2, 32),
        ("whisper", "full-b1", 1, 128),
    ],
)
def test_tokens_are_the_lengths_of_all_samples(
    model: str, shape: str, num_samples: int, num_tokens: int | None
) -> None:
    size = find_size(CATALOG[model], shape)
    assert (size.num_samples, size.num_tokens) == (num_samples, num_tokens)


@pytest.mark.parametrize("spec", CATALOG.values(), ids=CATALOG.keys())
def test_a_size_varied_to_what_it_is_stays_what_it_is(spec: ModelSpec) -> None:
    for size in spec.sizes.values():
        values = {axis.key: int(str(size.config[axis.key])) for axis in axes_of(size)}
        assert "batch" in values
        assert vary(size, values) == size


def test_tokens_that_no_axis_says_follow_the_batch() -> None:
    size = SizeSpec(config={"batch": 2}, num_samples=2, num_tokens=20)
    assert vary(size, {"batch": 3}).num_tokens == 30


def test_a_transformer_of_any_shape_has_the_axes_of_a_text() -> None:
    (spec,) = candidate_models(["arch/2-64-2-4"]).values()
    assert find_size(spec, "tiny-b3-l5").num_tokens == 15


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("vit", "small-l8"),
        ("bert", "full-l600"),
        ("gpt2", "small-l129"),
        ("gpt2_decode", "small-c64"),
        ("bert", "small-l8-b4"),
        ("bert", "small-b4-b8"),
        ("bert", "small-x3"),
        ("distilbert", "smal-b8"),
        ("bert", "small-b08"),
        ("bert", "small-b0-l32"),
        ("bert", "tiny-b9999999999"),
    ],
)
def test_a_shape_that_cannot_be_is_answered_with_what_can(
    model: str, shape: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_size(CATALOG[model], shape)
    assert str(caught.value) == words


def test_what_a_size_cannot_have_is_reported_without_a_model() -> None:
    with pytest.raises(UnfitShapeError, match="takes length <= 128, not 200"):
        vary(SizeSpec(config=SMALL, num_samples=4), {"length": 200})


def test_every_axis_is_a_setting_of_a_named_shape() -> None:
    rows = section_rows("shapes.NAME")
    axes = {axis.key: axis.unit for axis in AXES}
    assert [(key, row.unit) for key, row in rows.items() if key in axes] == list(axes.items())


def test_everything_is_the_sizes_and_what_is_tracked() -> None:
    assert shapes("*", models=("bert",)) == ["bert tiny", "bert small", "bert full", "bert serving"]


def test_what_is_there_on_demand_is_looked_up_by_a_glob_of_its_name() -> None:
    assert shapes("grid*") == ["bert grid-b1"]


def test_nightly_means_what_is_tracked_and_needs_none() -> None:
    assert shapes("auto", "nightly") == ["bert small", "bert serving", "vit small"]
    assert shapes("auto", "nightly", models=("vit",)) == ["vit small"]
    assert NIGHTLY.selection.shapes == ("auto", "nightly")


def test_a_model_that_a_glob_matched_is_left_out_of_what_it_does_not_have() -> None:
    assert shapes("small-l8") == ["bert small-l8"]
    assert shapes("serving") == ["bert serving"]


def test_a_model_that_is_named_must_have_the_shape(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shapes("small-l8", models=("bert", "vit"))
    assert caught.value.parameters == {"model": "vit", "shape": "small-l8", "axis": "length"}
    assert str(caught.value) == words


def test_a_shape_that_no_model_has_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shapes("small", "small-s8")
    assert caught.value.parameters["axis"] == "source_length"
    assert str(caught.value) == words


@pytest.mark.parametrize("shape", ["small-b8-l16", "serving", "grid-b1"])
def test_a_case_of_a_named_shape_is_planned_again_by_its_name(shape: str) -> None:
    catalog = {"bert": a_model()}
    (planned,) = make_plan(
        Selection(models=("bert",), modes=("eager",), shapes=(shape,)),
        catalog=catalog,
        device="cpu",
    )
    assert planned.case.shape == shape
    assert plan_case(planned.case, catalog=catalog) == planned
