"""The step `kernels` of a launch: its trace, and the notes next to it."""

from __future__ import annotations

import gzip
import inspect
import json
import math
import re
import runpy
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.kernels import KernelSource
from compile_hud.runner.analysis.kernels.standalone_script import script_of
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.kernels import generated_code as generated
from compile_hud.runner.measure.kernels import profile_step as kernels
from compile_hud.runner.measure.kernels.generated_code import (
    describe_arguments,
    generated_kernels,
    generated_modules,
    register_spills,
    visible_kernels,
)
from compile_hud.runner.measure.kernels.library_calls import (
    recorded_library_calls,
    shown_library_calls,
)
from compile_hud.runner.measure.kernels.profile_step import MAX_ITERATIONS, report_kernels
from compile_hud.runner.measure.kernels.provenance import Provenance, recorded_origins
from compile_hud.runner.protocol.messages import notes_path
from tests.support.builders import make_kernel
from tests.support.runs.launch_contexts import forget_compiled, make_context


class Halves(nn.Module):
    """Two graphs, each with a kernel of the same name and another code."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.LayerNorm(8)])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sin(self.first(x))
        torch._dynamo.graph_break()
        return self.blocks[0](x[:2]) + 1


def profiled(context: Context, forward: Any, *, path: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the events and the notes of some iterations through `forward`."""
    request = replace(context.request, trace_path=str(path))
    context = replace(context, request=request)
    context.findings.add("latency_s", (0.08,), method="")
    report_kernels(context, forward)
    with gzip.open(path, "rt") as stream:
        events = json.load(stream)["traceEvents"]
    return events, json.loads(notes_path(path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the events and notes of a compiled model of two graphs."""
    forget_compiled()
    folder = tmp_path_factory.mktemp("traces")
    context = make_context(Halves().eval(), {"x": torch.ones(4, 8)})
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # Inductor's own modules use what torch is about to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "cache"))
        forward = torch.compile(context.subject.model)
        with (
            recorded_origins(context.origins),
            recorded_library_calls(context.library_calls, lines=context.call_lines),
        ):
            context.step(forward)()
        yield profiled(context, forward, path=folder / "trace.json.gz")
    forget_compiled()


def names(events: list[Any]) -> Counter[str]:
    return Counter(event["name"] for event in events if event.get("ph") == "X")


def test_every_generated_kernel_shows_in_every_iteration(halves: Any) -> None:
    events, notes = halves
    assert notes["num_iterations"] == 3  # 0.3 s of budget at 0.08 s an iteration
    seen = names(events)
    assert seen["hud/iteration"] == 3
    kernels = [name for name in notes["kernels"] if name in seen]
    assert len(kernels) >= 2
    assert {seen[name] for name in kernels} == {3}


def test_kernels_of_one_name_in_two_graphs_are_distinguished(halves: Any) -> None:
    _events, notes = halves
    by_graph = [
        {origin["code"] for origin in note["origins"]} for note in notes["kernels"].values()
    ]
    assert {"x = torch.sin(self.first(x))"} in by_graph
    assert any("return self.blocks[0](x[:2]) + 1" in codes for codes in by_graph)


def test_a_kernel_names_the_line_and_the_module_it_comes_from(halves: Any) -> None:
    _events, notes = halves
    origins = [origin for note in notes["kernels"].values() for origin in note["origins"]]
    (sine,) = (origin for origin in origins if origin["target"] == "aten.sin.default")
    lines, start = inspect.getsourcelines(Halves.forward)
    assert sine["file"] == __file__
    assert sine["line"] == start + lines.index("        x = torch.sin(self.first(x))\n")
    assert "blocks.0" in {origin["module"] for origin in origins}


def test_a_call_of_a_library_shows_in_the_range_of_its_module(halves: Any) -> None:
    events, _notes = halves
    (product, *more) = (event for event in events if event["name"] == "aten::addmm")
    ranges = [
        event
        for event in events
        if event["name"] == "hud/module:first" and event["cat"] == "user_annotation"
    ]
    assert len(ranges) == len(more) + 1 == 3
    assert ranges[0]["ts"] <= product["ts"]
    assert product["ts"] + product["dur"] <= ranges[0]["ts"] + ranges[0]["dur"]


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize("calls", [[], [["first", "second"]], [["first"], ["second"]]])
def test_calls_that_do_not_fit_the_code_show_no_module(calls: list[list[str]]) -> None:
    def libraries() -> list[Any]:
        return [module.extern_kernels for module in generated_modules()]

    before = libraries()
    with shown_library_calls(calls):
        assert libraries() == before


def test_a_kernel_brings_its_code_and_the_bytes_it_moves(halves: Any) -> None:
    _events, notes = halves
    (sine,) = (
        note
        for note in notes["kernels"].values()
        if {origin["target"] for origin in note["origins"]} == {"aten.sin.default"}
    )
    assert sine["language"] == "cpp"
    assert ".sin()" in sine["source"] or "std::sin" in sine["source"]
    # 4 x 8 numbers of 4 bytes, changed in place, so read and written; a sine each.
    assert sine["num_bytes"] == 2 * 4 * 8 * 4
    assert sine["flops"] == 4 * 8
    assert sine["arguments"] == [{"dtype": "float32", "sizes": [4, 8], "strides": [8, 1]}]


def test_a_kernel_runs_alone_by_its_script(
    halves: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _events, notes = halves
    ((name, sine),) = (
        (name, note)
        for name, note in notes["kernels"].items()
        if {origin["target"] for origin in note["origins"]} == {"aten.sin.default"}
    )
    kernel = replace(make_kernel(name), launch={"arguments": sine["arguments"]})
    code = KernelSource(hash="a" * 64, language="cpp", text=sine["source"])
    path = tmp_path / "alone.py"
    path.write_text(script_of(kernel, code, title=name), encoding="utf-8")
    script = runpy.run_path(str(path))
    (argument,) = script["arguments"]()
    expected = torch.sin(argument)
    script["load"]()(argument)
    assert torch.allclose(argument, expected)
    seen = []

    def halve(values: Tensor) -> None:
        seen.append(values.clone())
        values.mul_(0.5)

    script["seconds_of"](halve, 3)
    assert all(torch.equal(values, seen[0]) for values in seen)
    assert len(seen) == 3
    script["main"]()
    assert re.fullmatch(r"\d+\.\d{3} us a call .*\n", capsys.readouterr().out)


@pytest.mark.usefixtures("halves")
def test_kernels_are_plain_functions_again_afterwards() -> None:
    from torch._inductor.codecache import PyCodeCache

    def functions() -> list[Any]:
        return [
            vars(module)[name]
            for module in PyCodeCache.modules
            for name in vars(module)
            if name.startswith("cpp_")
        ]

    before = functions()
    assert before
    with visible_kernels():
        assert not set(functions()) & set(before)
    assert functions() == before
    assert all(kernel.text for kernel in generated_kernels())


class Autotuned:
    """What Inductor's Triton kernels are: an object that is run."""

    def __init__(self) -> None:
        self.ran: list[object] = []

    def run(self, *arguments: object, stream: int) -> None:
        """Remember what it was run with."""
        self.ran += [*arguments, stream]


def test_the_first_call_of_a_triton_kernel_is_looked_at_and_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, x = Autotuned(), torch.ones(2, 3).t()
    module = ModuleType("written")
    vars(module)["triton_poi_fused_add_0"] = kernel
    monkeypatch.setattr(generated, "generated_modules", lambda: [module])
    with visible_kernels() as calls:
        kernel.run(x, x, 6, stream=7)
        kernel.run(x, x, 12, stream=7)
    assert calls["triton_poi_fused_add_0"] == [
        {"dtype": "float32", "sizes": [3, 2], "strides": [1, 3]},
        {"same_as": 0},
        6,
    ]
    assert kernel.ran == [x, x, 6, 7, x, x, 12, 7]
    assert "run" not in vars(kernel)


class Launcher:
    """A compiled Triton kernel, as Inductor starts it."""

    def __init__(self, n_spills: object) -> None:
        self.n_spills = n_spills


def test_register_spills_are_those_of_the_only_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = []
    for launchers in ([Launcher(48)], [Launcher(None)], [Launcher(2), Launcher(4)], [Launcher(12)]):
        kernel = Autotuned()
        vars(kernel)["launchers"] = launchers
        modules.append(ModuleType("written"))
        vars(modules[-1])[f"triton_red_fused_{len(modules) % 4}"] = kernel
    vars(modules[0])["triton_red_fused_0"] = vars(modules[3])["triton_red_fused_0"]
    vars(modules[0])["cpp_fused_0"] = print
    monkeypatch.setattr(generated, "generated_modules", lambda: modules)
    assert register_spills() == {"triton_red_fused_1": 48, "triton_red_fused_0": 12}


def test_an_unexpected_output_is_reported_by_its_type() -> None:
    empty = torch.ones(0)
    described = describe_arguments([empty, empty, 1.5, math.inf, None, True])
    assert described == [
        {"dtype": "float32", "sizes": [0], "strides": [1]},
        {"dtype": "float32", "sizes": [0], "strides": [1]},
        1.5,
        {"type": "float"},
        {"type": "NoneType"},
        True,
    ]


def test_an_eager_case_shows_its_modules(tmp_path: Path) -> None:
    context = make_context(Halves().eval(), {"x": torch.ones(4, 8)}, backend="eager")
    events, notes = profiled(context, context.subject.model, path=tmp_path / "trace.json.gz")
    seen = names(events)
    assert seen["hud/module:first"] == seen["hud/module:blocks.0"] == 3
    assert notes["device"] == "cpu"
    # No hook stays behind.
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_fast_model_is_not_profiled_for_ever(tmp_path: Path) -> None:
    context = make_context(nn.Linear(2, 2), {"input": torch.ones(1, 2)}, backend="eager")
    context.findings.add("latency_s", (1e-5,), method="")
    request = replace(context.request, trace_path=str(tmp_path / "trace.json.gz"))
    report_kernels(replace(context, request=request), context.subject.model)
    notes = json.loads(notes_path(tmp_path / "trace.json.gz").read_text(encoding="utf-8"))
    assert notes["num_iterations"] == MAX_ITERATIONS


def test_another_profiler_gets_the_iterations_and_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @contextmanager
    def named_range(name: str, *, device: Device) -> Iterator[None]:
        seen.append(f"{name} on {device.kind}")
        yield

    monkeypatch.setattr(kernels, "named_range", named_range)
    monkeypatch.setattr(torch.profiler, "profile", None)
    context = make_context(nn.Linear(2, 2), {"input": torch.ones(1, 2)}, backend="eager")
    context.findings.add("latency_s", (0.08,), method="")
    request = replace(context.request, trace_path=str(tmp_path / "trace.gz"), is_watched=True)
    report_kernels(replace(context, request=request), context.subject.model)
    assert seen == ["hud/iteration on cpu"] * 3
    assert list(tmp_path.iterdir()) == []


def test_a_compilation_continues_without_the_origin_of_a_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._inductor.codegen.cpp import CppScheduling

    monkeypatch.setattr(CppScheduling, "define_kernel", lambda *_arguments, **_options: "cpp_0")
    origins: dict[str, Any] = {}
    with recorded_origins(origins):
        assert CppScheduling.define_kernel(None, "code", 7) == "cpp_0"
        assert CppScheduling.define_kernel(None, another_torch_gives="this") == "cpp_0"
    assert origins == {"cpp_0": [Provenance()]}


def test_what_another_torch_does_not_have_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.codegen.cpp import CppScheduling

    monkeypatch.delattr(CppScheduling, "define_kernel")
    with recorded_origins({}):
        assert "define_kernel" not in vars(CppScheduling)
    assert "define_kernel" not in vars(CppScheduling)
