"""Launches can use CUDA whatever their host has imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_hud.db.records.results import Outcome
from tests.support.runs.host_imports import HANGS_FORKS, STARTS_CUDA, launch_after_import


@pytest.mark.parametrize(
    ("variant", "import_does"), [("eager", ""), ("default", STARTS_CUDA), ("eager", HANGS_FORKS)]
)
def test_a_launch_can_use_cuda_whatever_its_host_imports(
    variant: str, import_does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = launch_after_import(
        import_does, folder=tmp_path, monkeypatch=monkeypatch, variant=variant
    )
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
