"""The script of a case: it needs torch alone, and runs the same operators."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.models_zoo.catalog.spec import CompileSettings
from compile_hud.runner.measure.compile.captured_graphs import (
    NoScriptError,
    _is_known,
    captured_case,
)
from compile_hud.runner.measure.compile.compiler import script_arguments
from compile_hud.runner.measure.device import open_device
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.graphs import CapturedCase
from compile_hud.runner.protocol.messages import Workload
from compile_hud.runner.release.script_text import AlertedChange, script_text
from tests.support.builders import make_case
from tests.support.nightly import daily_first

NO_SETTINGS = CompileSettings()
INDUCTOR = {"backend": "inductor", "mode": "default", "dynamic": None, "fullgraph": False}


class Broken(nn.Module):
    """A model with a graph break, an index, a mask and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 4)
        self.register_buffer("mask", torch.tensor([True, False] * 4))

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        hidden = self.first(self.embedding(ids)) * scale
        torch._dynamo.graph_break()
        masked: torch.Tensor = self.last(torch.where(self.mask[:, None], hidden, 0.0))
        return masked


@torch.library.custom_op("hud_test_script::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Foreign(nn.Module):
    """A model with an operator that torch alone does not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = twice(x)
        return result


class Plain(nn.Module):
    """A model with an attribute of a tensor, values set in it, and a shape that is computed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x.T @ x).clone()
        y[0] = 1.0
        y[1:, -1] += abs(-2)
        return y.mT.reshape(math.floor(y.shape[0] / 2), -1).real


class Attention(nn.Module):
    """A model that reads the sizes of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = x.view(batch, length, 4, width // 4).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return mixed.transpose(1, 2).reshape(batch, length, width)


class Layers(nn.Module):
    """A model of one layer that is passed several times."""

    def __init__(self, num_passes: int) -> None:
        super().__init__()
        self.layer, self.num_passes = nn.Linear(64, 64), num_passes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.num_passes):
            x = torch.tanh(self.layer(x))
        return x


def captured(
    model: nn.Module,
    inputs: dict[str, torch.Tensor],
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    options: Mapping[str, Any] | None = None,
    settings: CompileSettings = NO_SETTINGS,
) -> CapturedCase:
    subject = Subject(
        model=model.train(phase is Phase.TRAINING),
        inputs=inputs,
        phase=phase,
        dtype=dtype,
        device=open_device("cpu", num_threads=1),
        loss=mean_square,
    )
    if phase is Phase.TRAINING:
        subject.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    case = make_case("net", phase=phase, dtype=dtype, device="cpu")
    return captured_case(subject, case=case, options=options, settings=settings)


def script(
    model: nn.Module,
    inputs: dict[str, torch.Tensor],
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    options: Mapping[str, Any] | None = None,
) -> str:
    case = make_case("net", phase=phase, dtype=dtype, device="cpu")
    candidate = captured(model, inputs, phase=phase, dtype=dtype, options=options)
    return script_text(case, candidate=candidate)


# It prints whether each kind of code calls the fused attention.
_ATTENTION_USED = """\
    side = SIDES["candidate"]
    (graph,), (inputs,) = side["graphs"], [make() for make in side["inputs"]]
    used = {}
    for kind in ("eager", "compiled"):
        function = graph()
        if kind == "compiled":
            function = torch.compile(function, **side["options"])
            with attention(side["attention"]), torch.no_grad():
                function(*inputs)
        with torch.no_grad(), torch.profiler.profile() as profile:
            function(*inputs)
        names = [event.name for event in profile.events()]
        used[kind] = any("flash_attention" in name for name in names)
    print(json.dumps(used))
"""


def inputs() -> dict[str, torch.Tensor]:
    return {"ids": torch.randint(0, 50, (3, 8)), "scale": torch.tensor(2.0)}


def run(text: str, folder: Path, *options: str) -> str:
    path = folder / "case.py"
    path.write_text(text, encoding="utf-8")
    # Isolated: neither this folder nor our packages are on the path.
    answer = subprocess.run(
        [sys.executable, "-I", str(path), "--launches", "1", *options],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


PHASES = (Phase.INFERENCE, Phase.TRAINING)


# Dynamo reads it of a tensor between two graphs.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize(
    ("options", "phase"),
    daily_first(
        itertools.product([INDUCTOR, None], [Phase.INFERENCE, Phase.TRAINING]), num_daily=1
    ),
)
def test_it_runs_with_torch_alone(
    phase: Phase, options: Mapping[str, Any] | None, tmp_path: Path
) -> None:
    text = script(Broken(), inputs(), phase=phase, options=options)
    assert "compile_hud" not in text
    assert len(re.findall(r"^class CandidateGraph", text, re.MULTILINE)) == 2
    assert re.search(r"median \d+\.\d us", run(text, tmp_path))


def test_autocast_and_shapes_are_those_of_the_case(tmp_path: Path) -> None:
    text = script(Broken(), inputs(), dtype=Dtype.BF16_AUTOCAST)
    assert "AUTOCAST = torch.bfloat16" in text
    assert "tensor(torch.int64, (3, 8), (8, 1)" in text
    assert run(text, tmp_path)


def test_what_python_has_is_in_the_script() -> None:
    case = captured(Plain(), {"x": torch.randn(8, 4)})
    names: dict[str, Any] = {"__name__": "script"}
    exec(script_text(make_case("net", device="cpu"), candidate=case), names)  # noqa: S102
    side = names["SIDES"]["candidate"]
    (graph,), (inputs,) = side["graphs"], [make() for make in side["inputs"]]
    (answer,) = graph()(*inputs)
    torch.testing.assert_close(answer, Plain()(*inputs))


def test_operators_that_torch_lacks_are_refused() -> None:
    with pytest.raises(NoScriptError, match="hud_test_script"):
        script(Foreign(), {"x": torch.ones(3)})


def test_both_sides_of_an_alert_take_turns_with_torch_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {"x": torch.randn(256, 64)}
    baseline, candidate = (captured(Layers(number), inputs, options=INDUCTOR) for number in (2, 8))
    alerted = AlertedChange(metric="latency_s", change_pct=1.0, interval_pct=(0.5, 1.5))
    case = make_case("net", device="cpu")
    text = script_text(case, candidate=candidate, baseline=baseline, alerted=alerted)
    answer = json.loads(run(text, tmp_path, "--json"))
    # Four times the work takes more than half as much longer, whatever else the machine does.
    assert answer["changes"]["latency_cpu_s"]["change_pct"] > 50
    assert set(answer["medians_s"]) == {
        f"{side} {mode}" for side in ("baseline", "candidate") for mode in ("eager", "compiled")
    }
    assert answer["alert"]["interval_pct"] == [0.5, 1.5]
    assert answer["is_inside"] is False
    names: dict[str, Any] = {"__name__": "script"}
    exec(text, names)  # noqa: S102
    names["report"](answer)
    assert "the change is outside" in capsys.readouterr().out


def test_equal_graphs_are_written_once_and_each_side_has_its_options() -> None:
    inputs, model = {"x": torch.randn(4, 64)}, Layers(2)
    sides = [
        captured(model, inputs, options={**INDUCTOR, "mode": mode})
        for mode in ("default", "max-autotune")
    ]
    text = script_text(make_case("net"), candidate=sides[1], baseline=sides[0])
    assert len(re.findall(r"^class .*Graph", text, re.MULTILINE)) == 1
    assert [text.count(f"'mode': '{mode}'") for mode in ("default", "max-autotune")] == [1, 1]


@pytest.mark.parametrize(
    ("settings", "is_dynamic", "dimensions"),
    [
        (CompileSettings(mark_dynamic={"x": (0, -2)}), None, "(0, 1)"),
        (CompileSettings(mark_dynamic={"x": (1,)}), None, "(1,)"),
        (NO_SETTINGS, True, "(0, 1, 2)"),
    ],
)
def test_sizes_that_a_variant_leaves_open_are_open_in_the_script(
    settings: CompileSettings, *, is_dynamic: bool | None, dimensions: str
) -> None:
    options = {**INDUCTOR, "backend": "eager", "dynamic": is_dynamic}
    case = captured(Attention(), {"x": torch.randn(3, 8, 16)}, options=options, settings=settings)
    text = script_text(make_case("net", device="cpu"), candidate=case)
    assert f", False, {dimensions})" in text
    names: dict[str, Any] = {"__name__": "script"}
    exec(compile(text, "script.py", "exec"), names)  # noqa: S102
    (graph,) = names["SIDES"]["candidate"]["graphs"]
    (inputs,) = (make() for make in names["SIDES"]["candidate"]["inputs"])
    assert len(inputs) == 1
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(graph(), backend=counter, dynamic=is_dynamic)
    compiled(*inputs)
    longer = torch.cat([inputs[0], inputs[0]], dim=1)
    (answer,) = compiled(longer)
    assert counter.frame_count == 1
    assert answer.shape == longer.shape
    torch._dynamo.reset()


class Scaled(nn.Module):
    """A model with a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 3.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor + x.shape[0]


def test_a_number_of_a_dynamic_case_breaks_no_graph() -> None:
    options = {**INDUCTOR, "backend": "eager", "dynamic": True}
    case = captured(Scaled(), {"x": torch.ones(5, 4)}, options=options)
    names: dict[str, Any] = {"__name__": "script"}
    exec(script_text(make_case("net", device="cpu"), candidate=case), names)  # noqa: S102
    side = names["SIDES"]["candidate"]
    (graph,), (inputs,) = side["graphs"], [make() for make in side["inputs"]]
    compiled = torch.compile(graph(), backend="eager", dynamic=True, fullgraph=True)
    (answer,) = compiled(*inputs)
    torch.testing.assert_close(answer, Scaled()(*inputs))
    torch._dynamo.reset()


def test_only_what_a_script_has_is_known() -> None:
    assert _is_known("getattr", getattr)
    assert not _is_known("getattr", setattr)
    assert not _is_known("anything", None)


def test_weights_of_a_dynamic_case_are_static() -> None:
    options = {**INDUCTOR, "backend": "eager", "dynamic": True}
    case = captured(Layers(1), {"x": torch.randn(5, 64)}, options=options)
    marks = sorted(text.rpartition(", (")[2] for graph in case.graphs for text in graph.inputs)
    assert marks == ["))", "))", "0,))"]


def test_a_case_without_open_sizes_has_no_marks() -> None:
    case = captured(Layers(1), {"x": torch.randn(5, 64)}, options=INDUCTOR)
    assert all(text.endswith((", True)", ", False)")) for text in case.graphs[0].inputs)


def test_compiled_code_has_the_attention_of_the_variant(tmp_path: Path) -> None:
    case = captured(
        Attention(),
        {"x": torch.randn(3, 8, 16)},
        options=INDUCTOR,
        settings=CompileSettings(sdpa="math"),
    )
    text = script_text(make_case("net", device="cpu"), candidate=case)
    # Eager code takes the fused attention, and compiled code none.
    text = text.replace("    main()\n", _ATTENTION_USED)
    used = json.loads(run(text, tmp_path))
    assert used == {"eager": True, "compiled": False}


@pytest.mark.nightly
def test_another_environment_has_launches_of_its_own(tmp_path: Path) -> None:
    inputs, model = {"x": torch.randn(4, 64)}, Layers(1)
    sides = [
        captured(model, inputs, settings=CompileSettings(environment={"HUD_SIDE": name}))
        for name in ("a", "b")
    ]
    text = script_text(make_case("net", device="cpu"), candidate=sides[1], baseline=sides[0])
    answer = json.loads(run(text, tmp_path, "--json"))
    assert set(answer["medians_s"]) == {"baseline eager", "candidate eager"}
    assert set(answer["changes"]) >= {"latency_s", "eager_latency_s"}


@pytest.mark.parametrize("options", [{}, {"epilogue_fusion": False}], ids=["mode", "options"])
def test_the_config_of_inductor_is_among_the_arguments_of_a_script(
    options: Mapping[str, Any],
) -> None:
    settings = CompileSettings(inductor={"cpp.simdlen": 256}, options=options)
    workload = Workload(build="", config={}, num_samples=1, num_tokens=None, compile=settings)
    arguments = script_arguments(make_case("net", mode="default"), workload)
    assert arguments["options"] == {**options, "cpp.simdlen": 256}
    assert "mode" not in arguments


def test_drawn_values_have_the_mean_and_the_deviation_of_the_real_ones(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = script(Layers(1), {"x": 3 + 2 * torch.randn(500, 64)})
    text = text.replace(
        "    main()\n", "    x = candidate_inputs_0()[-1]\n    print(x.mean(), x.std())\n"
    )
    mean, sd = (float(value) for value in re.findall(r"tensor\((\S+)\)", run(text, tmp_path)))
    assert mean == pytest.approx(3, abs=0.1)
    assert sd == pytest.approx(2, abs=0.1)
