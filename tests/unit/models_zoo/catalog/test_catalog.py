"""The catalog's rows, and its look-up of models."""

from __future__ import annotations

import math
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_models, find_size
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec

FAMILIES = {
    "encoder",
    "decoder",
    "encoder-decoder",
    "mixture-of-experts",
    "vision",
    "segmentation",
    "detection",
    "vision-language",
    "diffusion",
    "gan",
    "transformer",
    "state-space",
    "recurrent",
    "recommender",
    "kernel",
}
LENGTHS = ("length", "source_length", "target_length")
# So that a model more changes no message.
NINE = {
    name: CATALOG[name]
    for name in ("bert", "gpt2", "llama", "moe", "t5", "vit", "resnet", "unet", "nn_transformer")
}
rows = pytest.mark.parametrize("spec", CATALOG.values(), ids=CATALOG.keys())


def a_model(name: str) -> ModelSpec:
    sizes = {"default": SizeSpec(config={}, num_samples=1)}
    return ModelSpec(name=name, family="own", build="own", summary="Ours.", sizes=sizes)


def names(patterns: list[str]) -> list[str]:
    return [spec.name for spec in find_models(patterns)]


def test_keys_are_the_names() -> None:
    assert list(CATALOG) == [spec.name for spec in CATALOG.values()]


@rows
def test_a_row_has_all_three_shapes(spec: ModelSpec) -> None:
    assert list(spec.sizes) == ["tiny", "small", "full"]


@rows
def test_the_shapes_of_a_row_differ_only_in_values(spec: ModelSpec) -> None:
    assert len({frozenset(size.config) for size in spec.sizes.values()}) == 1


@rows
def test_the_summary_is_one_sentence(spec: ModelSpec) -> None:
    assert re.fullmatch(r"[A-Z][^.]*\.", spec.summary.replace("today's", "todays")), spec.summary


@rows
def test_names_and_families_are_known(spec: ModelSpec) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", spec.name)
    assert re.fullmatch(rf"compile_hud\.models_zoo\.[a-z_]+\.{spec.name}", spec.build)
    assert spec.family in FAMILIES
    assert set(spec.phases) <= set(Phase)
    assert set(spec.tolerance) <= set(Dtype)


@rows
def test_samples_and_tokens_follow_from_the_configuration(spec: ModelSpec) -> None:
    for size in spec.sizes.values():
        lengths = [int(str(size.config[key])) for key in LENGTHS if key in size.config]
        assert size.num_samples == size.config["batch"]
        # A step of generation reads one token of each text.
        length = 1 if "cache_length" in size.config else sum(lengths)
        assert size.num_tokens == (size.num_samples * length or None)


def test_the_transformer_of_the_articles_is_in_their_configuration() -> None:
    config = CATALOG["nn_transformer"].sizes["full"].config
    assert (config["hidden_size"], config["num_heads"], config["num_layers"]) == (512, 8, 6)
    assert (config["source_length"], config["target_length"], config["batch"]) == (100, 50, 32)


def test_the_two_layers_of_the_mixture_of_experts_fit_twice_into_80_gb() -> None:
    config = CATALOG["moe"].sizes["full"].config
    expert = 3 * math.prod(int(str(config[key])) for key in ("hidden_size", "intermediate_size"))
    experts = expert * int(str(config["num_experts"])) * int(str(config["num_layers"]))
    fp32_weights_and_gradients = 8
    fp64_weights_and_gradients = 16
    assert experts * (fp32_weights_and_gradients + fp64_weights_and_gradients) < 80e9


def test_patterns_are_globs_and_the_order_is_the_catalogs() -> None:
    assert names(["v?t", "bert", "*t5"]) == ["bert", "t5", "vit"]
    assert names(["*"]) == list(CATALOG)


def test_a_model_that_two_patterns_match_comes_once() -> None:
    assert names(["vit", "vi*"]) == ["vit"]


def test_no_pattern_finds_no_model() -> None:
    assert find_models([]) == ()


def test_another_catalog_can_be_searched() -> None:
    own = {"ours": a_model("ours")}
    assert find_models(["o*"], catalog=own) == (own["ours"],)


@pytest.mark.parametrize(
    "pattern",
    [
        "brt",
        "NN-Transformer",
        "lama*",
        "gpt",
        "xyzzy",
    ],
)
def test_an_unknown_model_is_answered_with_near_names(
    pattern: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_models(["bert", pattern], catalog=NINE)
    assert str(caught.value) == words


def test_a_shape_is_looked_up_by_its_name() -> None:
    spec = CATALOG["bert"]
    assert find_size(spec, "small") is spec.sizes["small"]


def test_an_unknown_shape_is_answered_with_what_there_is(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_size(CATALOG["distilbert"], "smal")
    assert str(caught.value) == words
