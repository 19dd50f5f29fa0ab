"""The how-tos of own models and variants, executed: their files in a folder, and their commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "how-to" / "adding-a-model.md"
# A file is named in front of its block: `models/ranker.py`:
FILE = re.compile(r"`(?P<path>[\w./]+)`:\n\n```(?:python|toml)\n(?P<text>.*?)```", re.DOTALL)
COMMANDS = re.compile(r"^```\n(?P<lines>hud run .*?)```", re.MULTILINE | re.DOTALL)
# As little as shows that it works.
QUICK = """
[run]
launches = 1
max_launches = 1
rounds = 2
budget_s = 0.05
kernels = false
sweep = false
reference_cases = false
"""


def section(title: str) -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    contents: dict[str, str] = {"hud.toml": QUICK}
    for match in FILE.finditer(section("Your own model")):
        contents[match["path"]] = contents.get(match["path"], "") + "\n" + match["text"]
    assert set(contents) == {"hud.toml", "models/ranker.py", "my_pkg/bench.py"}
    for name, text in contents.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def commands() -> list[str]:
    blocks = COMMANDS.finditer(section("Your own model"))
    return [line for block in blocks for line in block["lines"].splitlines()]


def hud(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT}/src",
        "HUD_LOCK_DIR": str(folder / "locks"),
    }
    return subprocess.run(
        [sys.executable, "-m", "compile_hud.runner", *shlex.split(command)[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_of_the_document_work_as_written(folder: Path) -> None:
    tables = []
    for command in commands():
        done = hud(command, folder)
        assert done.returncode == 0, done.stderr
        tables.append([line.split() for line in done.stdout.splitlines()])
    measured = [
        (line[0], line[1], line[3], line[5])
        for table in tables
        for line in table
        if line[0] in ("ranker", "my_moe")
    ]
    assert measured == [
        ("ranker", "eager", "default", "ok"),
        ("ranker", "default", "default", "ok"),
        ("my_moe", "eager", "small", "ok"),
        ("my_moe", "default", "small", "ok"),
        ("my_moe", "eager", "tiny-b64", "ok"),
    ]


def test_the_variants_of_the_document_are_measured(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "own-variant.md").read_text(encoding="utf-8")
    (settings,) = re.findall(r"^```toml\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "hud.toml").write_text(QUICK + settings, encoding="utf-8")
    (command,) = re.findall(r"^hud run .*", text, re.MULTILINE)
    done = hud(command, tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [(row[1], row[5]) for row in rows if row[0] == "dlrm"] == [
        (variant, "ok") for variant in ("eager", "default", "large-fusion", "no-inductor")
    ]
