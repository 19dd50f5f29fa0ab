"""The script of a case: it needs torch alone, and runs the same operators."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.compile.graph_script import NoScriptError, graph_script
from compile_hud.runner.measure.device import open_device
from compile_hud.runner.measure.subject import Subject, mean_square
from tests.support.builders import make_case

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


def script(
    model: nn.Module,
    inputs: dict[str, torch.Tensor],
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    options: Mapping[str, Any] | None = None,
) -> str:
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
    return graph_script(subject, case=case, options=options, version=torch.__version__)


def inputs() -> dict[str, torch.Tensor]:
    return {"ids": torch.randint(0, 50, (3, 8)), "scale": torch.tensor(2.0)}


def run(text: str, folder: Path) -> str:
    path = folder / "case.py"
    path.write_text(text, encoding="utf-8")
    # Isolated: neither this folder nor our packages are on the path.
    answer = subprocess.run(
        [sys.executable, "-I", str(path)], capture_output=True, text=True, timeout=240, cwd=folder
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


# Dynamo reads it of a tensor between two graphs.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("phase", [Phase.INFERENCE, Phase.TRAINING])
@pytest.mark.parametrize("options", [None, INDUCTOR], ids=["eager", "inductor"])
def test_it_runs_with_torch_alone(
    phase: Phase, options: Mapping[str, Any] | None, tmp_path: Path
) -> None:
    text = script(Broken(), inputs(), phase=phase, options=options)
    assert "compile_hud" not in text
    assert len(re.findall(r"^class Graph", text, re.MULTILINE)) == 2
    assert re.search(r"median \d+\.\d us", run(text, tmp_path))


def test_autocast_and_shapes_are_those_of_the_case(tmp_path: Path) -> None:
    text = script(Broken(), inputs(), dtype=Dtype.BF16_AUTOCAST)
    assert "AUTOCAST = torch.bfloat16" in text
    assert "tensor(torch.int64, (3, 8), (8, 1)" in text
    assert run(text, tmp_path)


def test_operators_that_torch_lacks_are_refused() -> None:
    with pytest.raises(NoScriptError, match="hud_test_script"):
        script(Foreign(), {"x": torch.ones(3)})
