"""[shapes.NAME] of hud.toml: which models get which shapes, and what is wrong where."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.spec import ModelSpec, NamedShape
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.named_shapes import ShapeSection, with_shapes
from compile_hud.runner.config.section import SectionError
from compile_hud.runner.errors import ConfigError
from tests.support.fakes import make_catalog


def catalog(content: str) -> dict[str, ModelSpec]:
    return dict(parse_config(content, path=None, env={}).catalog)


def added_shapes(model: str, content: str) -> dict[str, NamedShape]:
    """Return the shapes that `content` adds to those of the zoo."""
    shapes = catalog(content)[model].shapes
    return {name: shape for name, shape in shapes.items() if name not in CATALOG[model].shapes}


def shapes_of(model: str, content: str) -> list[str]:
    return list(added_shapes(model, content))


def test_each_axis_that_is_a_list_is_in_the_names() -> None:
    content = '[shapes.grid]\nsize = "small"\nmodels = "gpt2"\nbatch = [1, 8]\nlength = 100'
    shapes = added_shapes("gpt2", content)
    assert list(shapes) == ["grid-b1", "grid-b8"]
    assert shapes["grid-b8"].size.num_tokens == 800
    assert not shapes["grid-b8"].is_tracked


def test_two_lists_are_a_grid() -> None:
    content = '[shapes.g]\nsize = "small"\nmodels = "gpt2"\nlength = [16, 32]\nbatch = [1, 8]'
    assert shapes_of("gpt2", content) == ["g-b1-l16", "g-b1-l32", "g-b8-l16", "g-b8-l32"]


def test_a_single_point_has_the_name_alone_and_may_be_tracked() -> None:
    content = '[shapes.serving]\nsize = "full"\nmodels = "gpt2"\nbatch = 1\nnightly = true'
    assert shapes_of("gpt2", content) == ["serving"]
    assert catalog(content)["gpt2"].shapes["serving"].is_tracked


def test_a_glob_means_the_models_that_have_such_a_shape(words: SnapshotAssertion) -> None:
    content = '[shapes.long]\nsize = "small"\nmodels = ["gpt2*", "vit"]\nlength = [16, 512]'
    with pytest.raises(ConfigError) as caught:
        catalog(content)
    assert (caught.value.parameters["section"], caught.value.parameters["key"]) == (
        "shapes.long",
        None,
    )
    assert str(caught.value) == words
    reduced = content.replace(', "vit"', "")
    assert shapes_of("gpt2", reduced) == ["long-l16"]
    assert shapes_of("gpt2_decode", reduced) == []


def test_the_error_names_the_key_that_is_wrong(words: SnapshotAssertion) -> None:
    section = ShapeSection(size="small", models=("brt",), batch=1)
    with pytest.raises(SectionError) as caught:
        with_shapes(make_catalog("bert"), "x", section)
    assert str(caught.value) == words
    assert caught.value.key == "models"


def test_several_rules_add_up() -> None:
    content = '[shapes.a]\nsize = "small"\nbatch = 1\n[shapes.b]\nsize = "tiny"\nbatch = 7'
    assert shapes_of("resnet", content) == ["a", "b"]
    assert catalog(content)["resnet"].shapes["b"].size.num_samples == 7


@pytest.mark.parametrize(
    "content",
    [
        "[shapes.x]\nbatch = 1",
        '[shapes.x]\nsize = "small"',
        '[shapes.x]\nsize = "smal"\nbatch = 1',
        '[shapes.x]\nsize = "small"\nbatch = 0',
        '[shapes.x]\nsize = "small"\nbatch = [1, 1]',
        '[shapes.x]\nsize = "small"\nbatch = []',
        '[shapes.x]\nsize = "small"\nlengths = 1',
        '[shapes.x]\nsize = "small"\nbatch = 1\nmodels = ["brt*"]',
        '[shapes.x]\nsize = "small"\nlength = 600\nmodels = "bert"',
        '[shapes.small]\nsize = "tiny"\nbatch = 1',
        '[shapes.auto]\nsize = "tiny"\nbatch = 1',
        '[shapes.x-b8]\nsize = "tiny"\nbatch = 1',
        '[shapes."a/b"]\nsize = "tiny"\nbatch = 1',
    ],
)
def test_an_invalid_shape_is_reported_with_its_line(content: str, words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        catalog(content)
    assert str(caught.value) == words
