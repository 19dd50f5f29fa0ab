"""Kernels of another build in a real compilation of Inductor, and in a fake one of Triton."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config
from torch._inductor.codecache import CppPythonBindingsCodeCache

from compile_hud.runner.measure import launch
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.kernels.generated_code import generated_kernels
from compile_hud.runner.measure.kernels.replacements import (
    TransplantError,
    picked_vectors,
    recorded_vectors,
    transplanted_kernels,
)
from compile_hud.runner.measure.kernels.transplant_checks import report_transplants
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.protocol.transplants import TRANSPLANTS, KernelTransplant
from tests.support.runs.launch_contexts import forget_compiled, make_context

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    forget_libraries()
    yield make_context(Scaled(), {"x": torch.randn(32, 64)})
    forget_libraries()


def forget_libraries() -> None:
    """Clear compiled code with its libraries, whose files are in the folder of an earlier test."""
    forget_compiled()
    CppPythonBindingsCodeCache.cache_clear()


@pytest.fixture
def own(context: Context) -> KernelTransplant:
    """Return the kernel of the build as its own transplant."""
    vector_isas: dict[str, str] = {}
    with recorded_vectors(vector_isas):
        torch.compile(context.subject.model)(**context.subject.inputs)
    (kernel,) = generated_kernels()
    assert vector_isas == {kernel.text: picked_vectors()}
    forget_compiled()
    return KernelTransplant(
        name=kernel.name,
        language="cpp",
        own_source=kernel.text,
        source_name=kernel.name,
        source=kernel.text,
        vector_isa=picked_vectors(),
    )


def measured(context: Context, *transplants: KernelTransplant) -> tuple[Context, str]:
    """Return a launch with `transplants`, and the reason of its ending."""
    workload = replace(context.request.workload, transplants=transplants)
    context = replace(
        context,
        request=replace(context.request, workload=workload),
        log=StepLog(),
        findings=Findings(),
        replacements=[],
    )
    with transplanted_kernels(
        transplants, context.replacements, keeps_own=context.request.launch == 0
    ):
        return context, launch._measure(context).reason


def test_code_of_another_build_runs_instead_of_a_kernel(
    context: Context, own: KernelTransplant
) -> None:
    other = replace(own, source=f"// of another build\n{own.source}")
    context, reason = measured(context, other)
    assert reason == ""
    assert context.findings.details[TRANSPLANTS] == [{"name": own.name, "sha256": other.sha256}]
    (replacement,) = context.replacements
    library = Path(replacement.kernel.result().__self__.__file__)
    assert other.source in library.with_suffix(".cpp").read_text()
    assert "latency_s" in context.findings.metrics


@pytest.mark.nightly
def test_a_later_launch_with_a_filled_cache_uses_it_too(
    context: Context, own: KernelTransplant
) -> None:
    other = replace(own, source=f"// of another build\n{own.source}")
    measured(context, other)
    forget_compiled()
    later = replace(context, request=replace(context.request, launch=1))
    later, reason = measured(later, other)
    assert reason == ""
    assert later.findings.details["compile"]["cache"]["fxgraph_hits"] == 1
    assert len(later.replacements) == 1
    assert later.replacements[0].own is None


def test_results_are_those_of_the_builds_own_kernel(
    context: Context, own: KernelTransplant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "(2.0)" in own.source
    other = replace(own, source=own.source.replace("(2.0)", "(2.001)"))
    _, reason = measured(context, other)
    assert "rms error" in reason.lower()
    # Without the oracle the build's own kernel alone is the reference.
    monkeypatch.setattr(launch, "check_against", lambda *_arguments, **_options: "")
    forget_compiled()
    _, reason = measured(context, other)
    assert f"{own.name} the results change" in reason


def test_the_tolerance_of_the_case_counts(context: Context, own: KernelTransplant) -> None:
    other = replace(own, source=own.source.replace("(2.0)", "(2.001)"))
    workload = replace(context.request.workload, tolerance={"rounding_rmse": 0.1})
    loose = replace(context, request=replace(context.request, workload=workload))
    assert measured(loose, other)[1] == ""


def test_code_that_the_build_does_not_define_is_an_error(
    context: Context, own: KernelTransplant
) -> None:
    with pytest.raises(TransplantError, match=f"did not define {own.name}"):
        measured(context, replace(own, own_source="int other;"))


def test_a_kernel_that_no_module_calls_is_an_error(context: Context, own: KernelTransplant) -> None:
    context, _ = measured(context, own)
    forget_compiled()
    with pytest.raises(TransplantError, match=f"no module .* replaces {own.name}"):
        report_transplants(context)


def test_a_library_of_other_code_is_an_error(context: Context, own: KernelTransplant) -> None:
    context, _ = measured(context, own)
    (replacement,) = context.replacements
    Path(replacement.kernel.result().__self__.__file__).with_suffix(".cpp").write_text("")
    with pytest.raises(TransplantError, match=f"library that replaces {own.name}"):
        report_transplants(context)


@pytest.mark.skipif(not picked_vectors(), reason="Inductor knows no vectors of this machine")
def test_code_is_compiled_for_its_own_vector_instructions(
    context: Context, own: KernelTransplant
) -> None:
    with inductor_config.patch({"cpp.simdlen": 0}):
        torch.compile(context.subject.model)(**context.subject.inputs)
        (scalar,) = generated_kernels()
        assert "Vectorized" in own.source
        assert "Vectorized" not in scalar.text
        forget_compiled()
        _, reason = measured(context, replace(own, own_source=scalar.text))
    assert reason == ""


def test_vector_instructions_that_the_machine_lacks_are_an_error(
    context: Context, own: KernelTransplant
) -> None:
    with pytest.raises(Exception, match="is for zvector"):
        measured(context, replace(own, vector_isa="zvector"))


class FakeAutotuner:
    """A Triton kernel whose launchers have the choices of the look-up table, or others."""

    def __init__(self, configs: list[Any]) -> None:
        self.launchers = [type("Launcher", (), {"config": config})() for config in configs]


def test_triton_code_takes_the_name_of_the_kernel_that_it_replaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor.async_compile import AsyncCompile

    calls: list[tuple[str, str, str]] = []

    def define(_self: Any, name: str, text: str, device: str = "cuda") -> str:
        calls.append((name, text, device))
        return f"kernel {len(calls)}"

    monkeypatch.setattr(AsyncCompile, "triton", define)
    item = KernelTransplant(
        name="triton_poi_fused_add_3",
        language="triton",
        own_source="def triton_poi_fused_add_3(in_ptr0): slow",
        source_name="triton_poi_fused_add_0",
        source="def triton_poi_fused_add_0(in_ptr0): fast",
    )
    replacements: list[Any] = []
    with transplanted_kernels([item], replacements, keeps_own=True):
        compiler = AsyncCompile()
        other = compiler.triton("triton_x", "def triton_x(): pass", device_str="cuda")
        kernel = compiler.triton(item.name, f"\n{item.own_source}\n", device_str="cuda")
    assert (other, kernel) == ("kernel 1", "kernel 3")
    assert calls[1][1].strip() == item.own_source
    assert calls[2] == (item.name, "\ndef triton_poi_fused_add_3(in_ptr0): fast\n", "cuda")
    assert replacements[0].own == "kernel 2"


def test_a_configuration_alone_is_looked_up_by_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.runtime.triton_heuristics import generate_lookup_hash_from_source_code

    tables: list[dict[str, Any]] = []

    def define(_self: Any, _name: str, _text: str, _device: str = "cuda") -> str:
        tables.append(dict(config.autotune_lookup_table))
        return "kernel"

    monkeypatch.setattr(AsyncCompile, "triton", define)
    body = "def triton_poi_fused_add_0(in_ptr0, XBLOCK: tl.constexpr):\n    pass\n"
    text = f"@triton_heuristics.pointwise(\n    size_hints={{'x': 64}},\n)\n@triton.jit\n{body}"
    choice = {"XBLOCK": 32, "num_warps": 4, "num_stages": 1}
    item = KernelTransplant(
        name="triton_poi_fused_add_0",
        language="triton",
        own_source=text.strip("\n"),
        source_name="triton_poi_fused_add_0",
        source=text.strip("\n"),
        config=choice,
    )
    with transplanted_kernels([item], [], keeps_own=False):
        AsyncCompile().triton(item.name, text)
    key = generate_lookup_hash_from_source_code("{'x': 64}", body)
    assert tables == [{key: choice}]
    assert not config.autotune_lookup_table
    without_sizes = replace(item, own_source="x", source="x")
    with (
        transplanted_kernels([without_sizes], [], keeps_own=False),
        pytest.raises(TransplantError, match="names no sizes"),
    ):
        AsyncCompile().triton(item.name, "x")
