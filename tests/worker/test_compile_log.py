"""`hud compiles` on a log that the installed torch writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compile_hud.runner.traces.compile_log import read_log

PROGRAM = """
import torch

def inner(x):
    torch._dynamo.graph_break()
    return x * 3

def outer(x):
    return inner(torch.sin(x)).sum()

compiled = torch.compile(outer, backend="aot_eager", dynamic=False)
for size in (3, 7):
    compiled(torch.ones(size))
"""


@pytest.mark.nightly
def test_a_log_of_this_torch_has_its_compilations_breaks_and_recompiles(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    logs = tmp_path / "logs"
    env = {**os.environ, "TORCH_TRACE": str(logs)}
    subprocess.run([sys.executable, program], env=env, check=True, capture_output=True)
    (path,) = logs.iterdir()
    log = read_log(path)
    assert log.torch_version
    assert (log.is_cut, log.num_broken, log.num_unfinished) == (False, 0, 0)
    outer = [item for item in log.compilations if item.function == "outer"]
    assert [item.compile_id for item in outer] == ["0/0", "0/1"]
    assert all(item.location.startswith(str(program)) for item in outer)
    assert all(item.duration_s for item in outer)
    assert {item.location for item in log.graph_breaks} == {f"{program}:5"}
    assert "0/1" in {item.compile_id for item in log.recompiles}
    assert "expected 3, actual 7" in " ".join(item.reason for item in log.recompiles)
