"""Settings of own variants under the torch at hand."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch._inductor import config as inductor_config

from compile_hud.models_zoo.catalog.spec import CompileSettings
from compile_hud.runner.measure.compile.own_settings import (
    UnknownSettingError,
    applied_inductor_config,
    applied_while_compiling,
    checked_options,
    resolve_backend,
)

INPUTS = {"x": torch.zeros(2, 3)}


def test_settings_of_inductor_hold_during_the_block_alone() -> None:
    before = inductor_config.max_fusion_size
    settings = CompileSettings(inductor={"max_fusion_size": 7, "triton.cudagraphs": True})
    with applied_inductor_config(settings):
        assert inductor_config.max_fusion_size == 7
        assert inductor_config.triton.cudagraphs is True
    assert inductor_config.max_fusion_size == before
    assert inductor_config.triton.cudagraphs is False


@pytest.mark.parametrize(
    ("inductor", "words"),
    [
        ({"max_fuson_size": 4}, ["max_fuson_size", "did you mean max_fusion_size"]),
        ({"max_fusion_size": "many"}, ["max_fusion_size is a whole number", "'many'"]),
        ({"freezing": 1}, ["freezing is true or false"]),
        ({"max_fusion_size": True}, ["a whole number"]),
    ],
)
def test_what_this_torch_does_not_know_is_an_error_with_the_nearest_name(
    inductor: dict[str, object], words: list[str]
) -> None:
    settings = CompileSettings(inductor=inductor)
    with pytest.raises(UnknownSettingError) as caught, applied_inductor_config(settings):
        pytest.fail("the block must not run")
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epilog_fusion": True}, "did you mean epilogue_fusion"),
        ({"max-fusion-size": "many"}, "max_fusion_size is a whole number"),
    ],
)
def test_a_wrong_option_of_inductor_is_an_error_with_the_nearest_name(
    options: dict[str, object], words: str
) -> None:
    settings = CompileSettings(options=options)
    with pytest.raises(UnknownSettingError, match=words):
        checked_options(settings, backend="inductor")
    # What another backend accepts is not known here.
    assert checked_options(settings, backend="tensorrt") == options


def test_right_options_of_inductor_are_those_of_the_variant() -> None:
    options = {"use_aoti": False, "epilogue-fusion": True, "triton.cudagraphs": False}
    assert checked_options(CompileSettings(options=options), backend="inductor") == options


def test_a_registered_backend_is_its_name() -> None:
    assert resolve_backend("aot_eager") == "aot_eager"


def test_a_backend_may_be_a_function_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("their_backends")
    vars(module)["mine"] = lambda graph, _inputs: graph.forward
    monkeypatch.setitem(sys.modules, "their_backends", module)
    assert resolve_backend("their_backends:mine") is vars(module)["mine"]
    with pytest.raises(UnknownSettingError) as caught:
        resolve_backend("their_backends:mien")
    assert "mine" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("aot_egear", "did you mean aot_eager"), ("no_such_module:f", "the module no_such_module")],
)
def test_an_unknown_backend_is_an_error(name: str, words: str) -> None:
    with pytest.raises(UnknownSettingError, match=words):
        resolve_backend(name)


def test_marked_dimensions_are_dynamic_from_the_first_compilation_on() -> None:
    torch._dynamo.reset()
    shapes: list[bool] = []

    def note(graph: torch.fx.GraphModule, inputs: list[object]) -> object:
        shapes.append(any(isinstance(item, torch.SymInt) for item in inputs))
        return graph.forward

    inputs = {"x": torch.zeros(4, 3)}
    compiled = torch.compile(lambda x: x + 1, backend=note)
    with applied_while_compiling(CompileSettings(mark_dynamic={"x": (0,)}), inputs=inputs):
        compiled(**inputs)
    compiled(torch.zeros(5, 3))
    assert shapes == [True]


@pytest.mark.parametrize(
    ("dimensions", "words"), [({"y": (0,)}, "no input 'y'"), ({"x": (2,)}, "has 2 dimensions")]
)
def test_a_dimension_that_is_not_there_is_an_error(
    dimensions: dict[str, tuple[int, ...]], words: str
) -> None:
    settings = CompileSettings(mark_dynamic=dimensions)
    with (
        pytest.raises(UnknownSettingError, match=words),
        applied_while_compiling(settings, inputs=INPUTS),
    ):
        pytest.fail("the block must not run")


def test_compiled_code_has_the_attention_of_the_variant_and_eager_keeps_its_own() -> None:
    torch._dynamo.reset()
    targets: list[str] = []

    def note(graph: torch.fx.GraphModule, _inputs: list[object]) -> object:
        targets.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=note)
    query = torch.zeros(1, 2, 4, 8)
    attend = torch.compile(
        torch.nn.functional.scaled_dot_product_attention, backend=backend, dynamic=False
    )
    with torch.no_grad():
        with applied_while_compiling(CompileSettings(sdpa="math"), inputs={}):
            attend(query, query, query)
        num_compiled = len(targets)
        attend(query, query, query)
    assert num_compiled
    assert not any("flash" in target for target in targets)
    # The code of the variant stays when the block is over.
    assert len(targets) == num_compiled
    assert torch.backends.cuda.flash_sdp_enabled()
