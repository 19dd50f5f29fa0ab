"""Run `hud` of this checkout in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from benchmarks.startup import ROOT
from compile_hud.db.records.results import RunDocument

# -P keeps the working folder, which may be a repository of models, off the path.
_HUD = (sys.executable, "-P", "-m", "compile_hud.runner")


def run_hud(folder: Path, *command: str, expected: Collection[int] = (0,)) -> str:
    """Return the output of `hud` in `folder`; raise RuntimeError for another exit code."""
    done = subprocess.run(
        [*_HUD, *command],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
            "HUD_STATE_DIR": str(folder / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in expected:
        raise RuntimeError(f"hud {command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def measured_by_hud(folder: Path, model: str, *options: str) -> RunDocument:
    """Return the document of a run of `model`, eager and default, that no store has."""
    path = folder / f"{model}.json"
    modes = ("--mode", "eager", "--mode", "default")
    chosen = ("--model", model, *modes, *options)
    run_hud(folder, "run", *chosen, "--no-store", "--fail-on", "none", "--json", str(path))
    return RunDocument.from_json(json.loads(path.read_text(encoding="utf-8")))
