"""The Triton kernels: their numbers in Triton's interpreter, and their error without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.errors import UnavailableModelError
from compile_hud.models_zoo.kernels import triton_kernels
from tests.support.records.published_models import ONLY_ON_A_GPU

TRITON = "triton==3.9.0"
WIDTHS = (1, 64, 100, 1000)
# Of the largest result. Sums of 1000 numbers round; the interpreter may cut bf16 off, 2**-8.
MAX_ERROR = {"float32": 2e-6, "float64": 2e-14, "bfloat16": 2**-7}
# A process of its own: the interpreter is chosen while the kernels are imported.
SCRIPT = """
import json, sys
import torch
from compile_hud.models_zoo.kernels.rms_norm import EPS, RmsNorm
from compile_hud.models_zoo.kernels.softmax import Softmax
from compile_hud.models_zoo.kernels.triton_kernels import rms_norm, softmax

def error(ours, twin):
    return float((ours.double() - twin).abs().max() / twin.abs().max())

found = {}
torch.manual_seed(0)
for name in json.loads(sys.argv[1]):
    for width in json.loads(sys.argv[2]):
        norm = RmsNorm(width).to(getattr(torch, name))
        rows = 3 * torch.randn(2, 3, width).to(getattr(torch, name))
        ours = rms_norm(rows, norm.weight.detach(), EPS), softmax(rows)
        with torch.no_grad():
            twins = norm.double()(rows.double()), Softmax()(rows.double())
        assert [item.dtype for item in ours] == [rows.dtype] * 2
        found[f"{name} {width}"] = [error(*pair) for pair in zip(ours, twins)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def triton_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder to import Triton from, where this interpreter has none: a gigabyte."""
    folder = tmp_path_factory.mktemp("triton")
    if find_spec("triton") is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command = [*pip, "--only-binary=:all:", "--target", str(folder), TRITON]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode and not os.environ.get("CI"):
            pytest.skip(f"Triton cannot be installed: {finished.stderr}")
        assert finished.returncode == 0, finished.stderr
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def errors(triton_folder: Path) -> dict[str, list[float]]:
    """Return by dtype and width how far both kernels are from their twins in fp64."""
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), str(triton_folder)])
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(list(MAX_ERROR)), json.dumps(WIDTHS)],
        env={**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    errors_by_kernel: dict[str, list[float]] = json.loads(finished.stdout)
    return errors_by_kernel


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", MAX_ERROR)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernels_compute_what_their_twins_do(
    errors: dict[str, list[float]], dtype: str, width: int
) -> None:
    norm, softmax = errors[f"{dtype} {width}"]
    assert norm <= MAX_ERROR[dtype]
    assert softmax <= MAX_ERROR[dtype]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ONLY_ON_A_GPU)
def test_without_triton_the_case_is_unavailable(
    name: str, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(triton_kernels, "HAS_TRITON", False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UnavailableModelError) as caught:
        load_builder(f"compile_hud.models_zoo.kernels.{name}").build({"width": 8})
    assert str(caught.value) == words


@pytest.mark.nightly
@pytest.mark.parametrize("name", ONLY_ON_A_GPU)
def test_without_a_gpu_the_case_is_unavailable(
    name: str, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(triton_kernels, "HAS_TRITON", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnavailableModelError) as caught:
        load_builder(f"compile_hud.models_zoo.kernels.{name}").build({"width": 8})
    assert str(caught.value) == words
