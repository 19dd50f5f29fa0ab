"""docs/tutorial/is-my-change-slower.md, executed: its files, commit, change and command."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT, text_of

TEXT = text_of("docs/tutorial/is-my-change-slower.md")
FILES = re.compile(r"`(?P<name>[\w.]+)`[^`]*:\n\n```(?:python|toml)\n(?P<text>.*?)```", re.DOTALL)
# A loaded machine takes longer than the three minutes of the lesson.
MINUTES = ("--minutes", "10")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {match["name"]: match["text"] for match in FILES.finditer(TEXT)}
    assert set(files) == {"ranker.py", "hud.toml"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.timeout(1800)
def test_the_lesson_finds_the_slower_model(folder: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT}/src",
        "HUD_LOCK_DIR": str(folder / "locks"),
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "Ann"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "ann@example.org"),
    }
    (commit,) = re.findall(r"^git init .*", TEXT, re.MULTILINE)
    subprocess.run(["sh", "-e", "-c", commit], cwd=folder, env=environment, check=True)
    (old, new) = re.findall(r"`(WIDTH = \d+)`", TEXT)
    model = folder / "ranker.py"
    assert model.read_text(encoding="utf-8").count(old) == 1
    model.write_text(model.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    (command,) = re.findall(r"^hud compare .*", TEXT, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "compile_hud.runner", *shlex.split(command)[1:], *MINUTES],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert re.match(r"latency \+[0-9.]+ % \[", first)
    assert "code changed" in first
