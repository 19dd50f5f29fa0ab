"""Models by name, tag and exclusion."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.models_zoo.catalog.tags import TAGS, tags_of
from compile_hud.runner.cli.options import CaseOptions, make_run_requests
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.planning.selection import choose_models
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.workspace import Dependencies, Workspace

FEW = {name: CATALOG[name] for name in ("bert", "gpt2", "gpt2_decode", "vit", "dcgan")}


def chosen(selection: Selection, *, catalog: dict[str, ModelSpec] | None = None) -> list[str]:
    return [spec.name for spec in choose_models(selection, catalog=catalog or FEW)]


def test_without_tags_every_named_model_is_meant() -> None:
    assert chosen(Selection()) == list(FEW)


def test_any_of_several_tags_is_enough_and_globs_will_do() -> None:
    assert chosen(Selection(tags=("enc*", "image-generation"))) == ["bert", "dcgan"]


def test_tags_choose_among_the_models_that_are_named() -> None:
    assert chosen(Selection(models=("gpt2*", "vit"), tags=("text",))) == ["gpt2", "gpt2_decode"]


def test_what_is_excluded_is_left_out() -> None:
    assert chosen(Selection(tags=("text",), exclude=("gpt2*",))) == ["bert"]


def test_a_step_of_generation_is_a_tag() -> None:
    assert chosen(Selection(tags=("generation-step",))) == ["gpt2_decode"]


def test_a_model_has_its_family_and_its_own_tags() -> None:
    own = replace(CATALOG["vit"], name="own", family="own", tags=("ours", "own"))
    assert tags_of(own) == ("own", "ours")
    assert chosen(Selection(tags=("our*",)), catalog={**FEW, "own": own}) == ["own"]


def test_every_family_of_a_tag_has_a_model() -> None:
    families = {spec.family for spec in CATALOG.values()} | {"architecture"}
    assert {name for names in TAGS.values() for name in names} <= families


@pytest.mark.parametrize(
    "selection",
    [
        Selection(tags=("txt",)),
        Selection(exclude=("brt",)),
        Selection(models=("brt",)),
        Selection(models=("bert", "vit"), tags=("gan",)),
        Selection(models=("bert",), exclude=("b*",)),
    ],
)
def test_a_selection_that_matches_nothing_is_refused(
    selection: Selection, words: SnapshotAssertion
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        chosen(selection)
    assert str(caught.value) == words


def test_models_named_by_hand_are_measured_whatever_the_suite_makes_of_its_own() -> None:
    content = '[suites.ours]\ntags = "text"\nexclude = "bert"\nmodes = "eager"'
    workspace = Workspace(
        config=parse_config(content, path=None, env={}), dependencies=Dependencies()
    )

    def selection(**options: tuple[str, ...]) -> Selection:
        nothing = dict.fromkeys((item.name for item in fields(CaseOptions)), ())
        case_options = CaseOptions(**{**nothing, "suite": "ours", "device": None, **options})
        (order,) = make_run_requests(
            case_options, toolchains=("current",), workspace=workspace, has_references=False
        )
        return order.suite.selection

    assert selection().tags == ("text",)
    assert selection(models=("vit",)) == Selection(models=("vit",), modes=("eager",))
    assert selection(exclude=("t5",)).exclude == ("t5",)


def test_a_suite_and_a_model_have_tags_in_the_settings() -> None:
    content = """
        [suites.ours]
        tags = ["moe"]
        exclude = "bert"
        [models.my_moe]
        build = "my_pkg.bench:build"
        tags = "moe"
    """
    config = parse_config(content, path=None, env={})
    selection = config.suites["ours"].selection
    assert (selection.tags, selection.exclude) == (("moe",), ("bert",))
    assert chosen(selection, catalog=dict(config.catalog)) == ["my_moe"]
