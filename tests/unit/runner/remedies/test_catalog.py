"""The remedies that a measurement can try."""

from __future__ import annotations

import pytest

from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.findings.registry import table
from compile_hud.runner.remedies.catalog import REMEDIES, RemedyError, make_remedy
from tests.support.builders import make_case


def bert(variant: str = "default", **changes: object) -> Case:
    way = VARIANTS[variant]
    facts = {"model": "bert", "shape": "small", "device": "cuda", **changes}
    return make_case(variant=variant, mode=way.mode, backend=way.backend, **facts)  # type: ignore[arg-type]


def test_each_remedy_is_of_a_finding() -> None:
    assert {row.code for row in table()} > set(REMEDIES)


@pytest.mark.parametrize(
    ("code", "case", "expected"),
    [
        ("host-bound", bert(), {"variant": "reduce-overhead", "mode": "reduce-overhead"}),
        ("tiny-kernels", bert("eager"), {"variant": "cuda-graph"}),
        (
            "cudagraph-coverage",
            bert("channels-last", model="resnet"),
            {"variant": "reduce-overhead-channels-last"},
        ),
        ("low-occupancy", bert(), {"variant": "max-autotune-no-cudagraphs"}),
        ("recompiles", bert(), {"variant": "dynamic"}),
        ("layout-copies", bert("eager", model="resnet"), {"variant": "eager-channels-last"}),
        ("slower-than-eager", bert("max-autotune"), {"variant": "eager", "backend": "eager"}),
        ("unfused-optimizer", bert(phase=Phase.TRAINING), {"variant": "fused-adamw"}),
        ("fp32-on-plain-cores", bert(dtype=Dtype.FP32), {"dtype": Dtype.TF32}),
        ("attention-decomposed", bert(shape="small_unmasked"), {"shape": "small"}),
    ],
)
def test_a_remedy_changes_what_it_names_and_nothing_else(
    code: str, case: Case, expected: dict[str, object]
) -> None:
    remedy = make_remedy(case, code, catalog=CATALOG)
    changed = {
        name: value
        for name, value in remedy.planned.case.to_json().items()
        if value != case.to_json()[name]
    }
    assert set(expected) <= set(changed) <= {*expected, "variant", "mode", "backend"}
    assert {name: changed[name] for name in expected} == {
        name: str(value) for name, value in expected.items()
    }
    assert remedy.name


def test_a_decoder_without_a_mask_gets_one() -> None:
    case = bert(model="gpt2", shape="small")
    remedy = make_remedy(case, "attention-decomposed", catalog=CATALOG)
    assert remedy.planned.case.shape == "small_masked"


def test_fragmentation_is_tried_with_another_setting_of_the_allocator() -> None:
    remedy = make_remedy(bert(), "fragmentation", catalog=CATALOG)
    assert remedy.planned.case == bert()
    environment = remedy.planned.workload.compile.environment
    assert environment == {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize(
    ("code", "case", "words"),
    [
        ("graph-break", bert(), "slower-than-eager"),
        ("host-bound", bert(device="cpu"), "CUDA"),
        ("host-bound", bert("fullgraph"), "fullgraph"),
        ("fp32-on-plain-cores", bert(dtype=Dtype.BF16), "fp32"),
        ("slower-than-eager", bert("eager"), "eager"),
        ("unfused-optimizer", bert(), "training"),
        ("layout-copies", bert(), "images"),
        ("layout-copies", bert("eager", model="dlrm"), "images"),
        ("attention-decomposed", bert(), "small_masked"),
    ],
)
def test_what_cannot_be_tried_is_an_error_that_says_why(code: str, case: Case, words: str) -> None:
    with pytest.raises(RemedyError, match=words):
        make_remedy(case, code, catalog=CATALOG)
