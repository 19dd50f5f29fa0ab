"""Imports of a worker host that would spoil the launches which it forks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.execution.local_executor import LocalExecutor
from tests.support.runs.launches import order

# An import with this effect starts CUDA in the host: no fork of it can use the device.
STARTS_CUDA = """
import os, sys
def spoil():
    sys.modules["torch"].cuda._is_in_bad_fork = lambda: True
os.register_at_fork(after_in_child=spoil)
"""
# A thread of the host may hold such a lock during a fork: the first fork waits for it for ever.
HANGS_FORKS = """
import os, time
forks = []
def hang():
    if not forks:
        time.sleep(600)
os.register_at_fork(after_in_child=hang, after_in_parent=lambda: forks.append(1))
"""


def launch_after_import(
    import_does: str, *, folder: Path, monkeypatch: pytest.MonkeyPatch, variant: str = "eager"
) -> CaseResult:
    """Return the result of a launch whose host executed `import_does` when it started."""
    (folder / "sitecustomize.py").write_text(import_does, encoding="ascii")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    local = LocalExecutor(python=Path(sys.executable), state_dir=folder / "state")
    try:
        return local.execute(order("forking", variant=variant))
    finally:
        local.close()
