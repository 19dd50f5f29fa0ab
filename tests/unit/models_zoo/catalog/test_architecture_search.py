"""Architectures by name: the parameters of a name, and the names of a grid."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.architecture_search import (
    Architecture,
    architectures,
    candidate_models,
)
from compile_hud.models_zoo.catalog.catalog import find_models
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.planning.suites import Selection

NAME = "arch/8-512-8-2.67"


def test_a_name_is_the_configuration() -> None:
    config = candidate_models([NAME])[NAME].sizes["full"].config
    assert {**config} == {
        "num_layers": 8,
        "hidden_size": 512,
        "num_heads": 8,
        "ffn_ratio": 2.67,
        "batch": 8,
        "length": 1024,
    }


def test_the_shapes_differ_in_what_is_read_alone() -> None:
    sizes = candidate_models([NAME])[NAME].sizes
    assert list(sizes) == ["tiny", "small", "full"]
    bodies = [{**size.config, "batch": 0, "length": 0} for size in sizes.values()]
    assert bodies == [bodies[0]] * 3
    assert sizes["small"].num_tokens == 64


def test_a_candidate_is_built_next_to_the_models_of_the_catalog() -> None:
    assert [spec.name for spec in find_models(["bert", NAME])] == ["bert", NAME]


def test_candidates_are_planned_like_models() -> None:
    selection = Selection(models=(NAME,), modes=("eager", "default"))
    plan = make_plan(selection, catalog={}, device="cpu")
    assert [(planned.case.model, planned.case.variant) for planned in plan] == [
        (NAME, "eager"),
        (NAME, "default"),
    ]
    assert plan[0].workload.build == "compile_hud.models_zoo.decoders.architecture"


def test_other_names_are_left_to_others() -> None:
    assert candidate_models(["bert", "timm/resnet50"]) == {}


def test_a_grid_yields_each_combination_whose_heads_divide_its_width() -> None:
    grid = architectures(
        num_layers=(4, 8), hidden_sizes=(512, 768), num_heads=(8, 12), ffn_ratios=(2.67, 4.0)
    )
    names = [candidate.name for candidate in grid]
    assert len(names) == len(set(names)) == 2 * (1 + 2) * 2
    assert NAME in names
    assert "arch/4-512-12-4" not in names
    assert list(candidate_models(names)) == names


def test_a_name_comes_back_from_its_architecture() -> None:
    shape = Architecture(num_layers=8, hidden_size=512, num_heads=8, ffn_ratio=2.67)
    assert shape.name == NAME


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("arch/8-512-8", "no-architecture"),
        ("arch/*", "no-architecture"),
        ("arch/8-512-7-2.67", "indivisible-width"),
        ("arch/0-512-8-2.67", "zero"),
        ("arch/8-512-0-2.67", "zero"),
    ],
)
def test_a_name_of_no_architecture_says_how_to_write_one(
    name: str, problem: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_models([name])
    assert caught.value.parameters == {"model": name, "problem": problem}
    assert str(caught.value) == words
