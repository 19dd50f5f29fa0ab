from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec
from compile_hud.runner.planning.plan import find_names, find_suite, make_plan, plan_case
from compile_hud.runner.planning.suites import BUILTIN_SUITES, NIGHTLY, QUICK, TINY, Selection
from compile_hud.runner.protocol.messages import ShapeSweep
from tests.support.builders import make_case
from tests.support.fakes import make_catalog


def keys(selection: Selection, *, device: str = "cpu", **models: tuple[str, ...]) -> list[str]:
    catalog = make_catalog("bert", "vit") if not models else {}
    for name, phases in models.items():
        catalog |= make_catalog(name, phases=phases)
    return [planned.case.key for planned in make_plan(selection, catalog=catalog, device=device)]


def test_each_model_starts_with_its_eager_case() -> None:
    assert keys(Selection(modes=("max-autotune", "eager", "default"))) == [
        "bert/inference/small/fp32/eager/cpu",
        "bert/inference/small/fp32/default/cpu",
        "bert/inference/small/fp32/max-autotune/cpu",
        "vit/inference/small/fp32/eager/cpu",
        "vit/inference/small/fp32/default/cpu",
        "vit/inference/small/fp32/max-autotune/cpu",
    ]


def test_a_case_named_twice_is_there_once() -> None:
    selection = Selection(models=("bert", "b*", "bert"), modes=("eager", "eage?"))
    assert keys(selection) == ["bert/inference/small/fp32/eager/cpu"]


def test_auto_shape_is_full_on_a_gpu() -> None:
    selection = Selection(models=("bert",), modes=("eager",))
    assert keys(selection, device="cuda") == ["bert/inference/full/fp32/eager/cuda"]


def test_a_named_shape_is_taken_as_it_is() -> None:
    selection = Selection(models=("bert",), modes=("eager",), shapes=("tiny",))
    assert keys(selection, device="cuda") == ["bert/inference/tiny/fp32/eager/cuda"]


def test_several_shapes_are_measured_one_after_the_other_each_once() -> None:
    selection = Selection(
        models=("bert",), modes=("eager", "default"), shapes=("small", "tiny", "s*", "auto")
    )
    assert keys(selection) == [
        "bert/inference/small/fp32/eager/cpu",
        "bert/inference/small/fp32/default/cpu",
        "bert/inference/tiny/fp32/eager/cpu",
        "bert/inference/tiny/fp32/default/cpu",
    ]


def test_a_variant_brings_its_mode_and_arguments() -> None:
    selection = Selection(models=("bert",), modes=("dynamic",))
    (planned,) = make_plan(selection, catalog=make_catalog("bert"), device="cpu")
    assert planned.case.mode == "default"
    assert planned.workload.dynamic is True
    assert planned.workload.build == "compile_hud.models_zoo.encoders.bert"


def test_other_shapes_go_through_what_default_and_dynamic_compile_for_inference() -> None:
    selection = Selection(models=("bert",), modes=("*",), phases=("inference", "training"))
    plan = make_plan(selection, catalog=CATALOG, device="cpu")
    swept = [planned for planned in plan if planned.workload.sweep is not None]
    assert [(planned.case.variant, str(planned.case.phase)) for planned in swept] == [
        ("default", "inference"),
        ("dynamic", "inference"),
    ]
    assert swept[0].workload.sweep == ShapeSweep(axis="length", values=(16, 32, 48, 64, 80))


def test_a_model_built_for_one_shape_has_no_others() -> None:
    selection = Selection(models=("gpt2_decode",), modes=("default",))
    (planned,) = make_plan(selection, catalog=CATALOG, device="cpu")
    assert planned.workload.sweep is None


def test_a_model_is_left_out_of_phases_it_does_not_have() -> None:
    selection = Selection(modes=("eager",), phases=("training",))
    assert keys(selection, bert=("inference",), vit=("inference", "training")) == [
        "vit/training/small/fp32/eager/cpu"
    ]


def test_an_empty_plan_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        keys(Selection(phases=("training",)), bert=("inference",))
    assert caught.value.parameters["phases"] == ("training",)
    assert str(caught.value) == words


def test_a_variant_of_another_phase_says_which_it_has(words: SnapshotAssertion) -> None:
    both = ("inference", "training")
    with pytest.raises(UnknownNameError) as caught:
        keys(Selection(modes=("checkpointing", "fused-adamw")), bert=both)
    assert caught.value.parameters["variants"] == ("checkpointing", "fused-adamw")
    assert str(caught.value) == words
    assert keys(Selection(modes=("checkpointing", "eager")), bert=both) == [
        "bert/inference/small/fp32/eager/cpu"
    ]


def test_a_model_with_one_size_is_measured_in_it() -> None:
    own = ModelSpec(
        name="own",
        family="own",
        build="own",
        summary="",
        sizes={"default": SizeSpec(config={}, num_samples=1)},
    )
    selection = Selection(modes=("eager",), shapes=("small",))
    (planned,) = make_plan(selection, catalog={"own": own}, device="cpu")
    assert planned.case.shape == "default"


def test_reference_cases_come_first_whatever_is_selected() -> None:
    selection = Selection(models=("vit",), modes=("default",), phases=("training",))
    catalog = make_catalog("bert", "vit", phases=("training",))
    plan = make_plan(selection, catalog=catalog, device="cpu", has_references=True)
    assert [planned.case.key for planned in plan] == [
        "ref_gemm/inference/small/fp32/eager/cpu",
        "ref_copy/inference/small/fp32/eager/cpu",
        "ref_chain/inference/small/fp32/eager/cpu",
        "vit/training/small/fp32/default/cpu",
    ]
    assert [planned.case.is_reference for planned in plan] == [True, True, True, False]


def test_reference_cases_have_a_size_of_their_own_on_a_gpu() -> None:
    selection = Selection(models=("bert",), modes=("eager",), shapes=("tiny",))
    plan = make_plan(selection, catalog=make_catalog("bert"), device="cuda", has_references=True)
    assert [planned.case.shape for planned in plan] == ["full", "full", "full", "tiny"]
    assert plan[0].workload.config == {"width": 4096}


def test_a_reference_case_can_be_named_like_a_model() -> None:
    assert keys(Selection(models=("ref_copy",))) == ["ref_copy/inference/small/fp32/eager/cpu"]
    assert keys(Selection(models=("ref_copy", "bert"), modes=("eager",))) == [
        "ref_copy/inference/small/fp32/eager/cpu",
        "bert/inference/small/fp32/eager/cpu",
    ]


def test_a_glob_of_models_means_no_reference_case() -> None:
    assert not any(key.startswith("ref_") for key in keys(Selection(models=("*",))))


def test_a_reference_case_is_planned_again_without_the_catalog() -> None:
    for planned in make_plan(Selection(models=("ref_gemm",)), catalog={}, device="cpu"):
        assert plan_case(planned.case, catalog={}) == planned


def test_planning_a_case_again_gives_the_same_workload() -> None:
    catalog = make_catalog("bert")
    for planned in make_plan(Selection(modes=("*",)), catalog=catalog, device="cpu"):
        assert plan_case(planned.case, catalog=catalog) == planned


def test_a_case_of_a_removed_model_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        plan_case(make_case("bert"), catalog=make_catalog("vit"))
    assert (caught.value.parameters["kind"], caught.value.parameters["name"]) == ("model", "bert")
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "selection",
    [
        Selection(models=("brt",)),
        Selection(modes=("max-autotun",)),
        Selection(phases=("train",)),
        Selection(dtypes=("fp8",)),
        Selection(shapes=("smal",)),
        Selection(shapes=("tiny", "smol*")),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(
    selection: Selection, words: SnapshotAssertion
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        keys(selection)
    # What there is changes with the catalog.
    assert str(caught.value).partition(" Available: ")[0] == words


def test_an_escaped_name_is_shown_as_it_was_typed() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_names(["x[[]1]"], known=("current",), kind="toolchain")
    assert caught.value.parameters["name"] == "x[1]"
    assert "'x[1]'" in str(caught.value)


def test_an_unknown_device_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        keys(Selection(), device="xla")
    assert caught.value.parameters == {"kind": "device", "name": "xla", "near": ""}
    assert str(caught.value) == words


def test_an_unknown_suite_is_answered_with_near_ones(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_suite("quik", suites=BUILTIN_SUITES)
    assert caught.value.parameters == {"kind": "suite", "name": "quik", "near": "quick"}
    # What there is changes with the catalog.
    assert str(caught.value).partition(" Available: ")[0] == words
    assert find_suite("tiny", suites=BUILTIN_SUITES) is TINY


def test_quick_is_five_small_models_under_each_mode_and_three_pairs() -> None:
    plan = make_plan(QUICK.selection, catalog=CATALOG, device="cpu")
    assert {planned.case.shape for planned in plan} == {"small"}
    last = [(item.case.model, str(item.case.phase), item.case.variant) for item in plan[25:]]
    assert last == [
        ("dcgan", "inference", "eager"),
        ("dcgan", "inference", "default"),
        ("nn_transformer", "training", "eager"),
        ("nn_transformer", "training", "default"),
    ]
    assert [planned.case.variant for planned in plan[:5]] == [
        "eager",
        "default",
        "reduce-overhead",
        "max-autotune",
        "max-autotune-no-cudagraphs",
    ]


def test_a_case_of_two_selections_is_planned_once() -> None:
    first = Selection(models=("bert",), modes=("eager",))
    both = replace(first, also=(Selection(models=("bert",), modes=("eager", "default")),))
    plan = make_plan(both, catalog=CATALOG, device="cpu")
    assert [item.case.variant for item in plan] == ["eager", "default"]


def test_tiny_is_every_model_eager_and_default() -> None:
    plan = make_plan(TINY.selection, catalog=CATALOG, device="cpu")
    assert [planned.case.variant for planned in plan] == ["eager", "default"] * len(CATALOG)


def test_nightly_is_everything() -> None:
    plan = make_plan(NIGHTLY.selection, catalog=CATALOG, device="cuda")
    assert len(plan) == len({planned.case.key for planned in plan})
    assert {planned.case.shape for planned in plan} == {"full"}
    num_cases = sum(8 * 2 * len(spec.phases) for spec in CATALOG.values())
    assert len(plan) == num_cases


def test_a_workload_carries_the_tolerance_of_its_dtype_alone() -> None:
    catalog = {"moe": CATALOG["moe"]}
    selection = Selection(modes=("eager",), dtypes=("fp32", "bf16"))
    tolerances = [
        planned.workload.tolerance
        for planned in make_plan(selection, catalog=catalog, device="cpu")
    ]
    assert tolerances == [{}, {"min_cosine": 0.95}]
