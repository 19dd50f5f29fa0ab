"""A fake Python, and toolchains that cost nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from compile_hud.runner.toolchains.registry import python_of, register
from tests.support.terminal import Terminal

# Replaces a Python, its venv and its pip; their behaviour is in the files next to it.
PRETENDER = """#!/bin/sh
here={here}
case "$*" in
    *"-m venv"*)
        for folder; do :; done
        mkdir -p "$folder/bin"
        cp "$0" "$folder/bin/python"
        . "$here/venv";;
    *"-m pip"*)
        echo "$*" >> "$here/calls"
        echo "$PYTHONPATH" >> "$here/paths"
        . "$here/pip";;
    *importlib.metadata*) . "$here/version";;
    *) . "$here/probe";;
esac
"""
USUAL = {
    "venv": "",
    "pip": "echo 'Collecting torch'\necho '  Downloading torch.whl (532.2 MB)'\n"
    "echo 'Installing collected packages: a, b, torch'",
    "version": "echo 2.12.0+cu130",
    "probe": "echo 3 10",
}


class Pretender:
    """A Python that only pretends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = folder / "python"
        self.path.write_text(PRETENDER.format(here=folder))
        self.path.chmod(0o755)
        for name, script in USUAL.items():
            self.does(name, script)

    def does(self, name: str, script: str) -> None:
        """Replace its behaviour from now on."""
        (self.folder / name).write_text(script)

    def calls(self) -> list[str]:
        """Return the requirements in the calls of pip, without its constant options."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.partition("--progress-bar off ")[2] for line in lines]


def make_built(terminal: Terminal, *, python: Path = Path(sys.executable)) -> Path:
    """Make a complete toolchain `old`, and return its folder."""
    folder = terminal.folder / ".hud" / "venvs" / "old"
    python_of(folder).parent.mkdir(parents=True)
    python_of(folder).symlink_to(python)
    register(folder, torch_version="2.12.0", at=terminal.clock())
    return folder
