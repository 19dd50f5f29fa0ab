"""A git repository with an own model, whose second commit does more of the same work.

The model is a stack of equal blocks: one more of twenty is 5 % more work. The call, the guards and
the first copy are under 1 % of the latency, so the latency grows by as much.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Blocks before and after, by the percentage that the second commit adds.
BLOCKS = {0: (20, 20), 5: (20, 21), 8: (25, 27), 12: (25, 28), 15: (20, 23)}
MODEL = "planted"

_MODEL_CODE = '''
"""A stack of equal blocks."""

import torch
from torch import nn

from depth import DEPTH

WIDTH, BATCH = 256, 128


class Planted(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, input):
        for block in self.blocks:
            input = nn.functional.gelu(block(input))
        return input


def build(config):
    torch.manual_seed(0)
    return Planted()


def example_inputs(config, *, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"input": torch.randn(BATCH, WIDTH, generator=generator)}
'''
# Each peer calls the compiled model once on one thread, as `hud` measures it.
_CALL_CODE = '''
"""The compiled model as a function without arguments."""

import torch

from planted import build, example_inputs


def make_call():
    torch.set_num_threads(1)
    module = torch.compile(build({}).eval())
    inputs = example_inputs({}, seed=0)

    def call():
        with torch.no_grad():
            return module(**inputs)

    for _ in range(5):
        call()
    return call
'''
_IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRepository:
    """A repository, its two commits, and a checkout of each for tools that know no commits."""

    folder: Path
    base: str
    head: str
    checkouts: tuple[Path, Path]


def make_repository(folder: Path, *, slowdown_pct: int) -> PlantedRepository:
    """Return a repository in `folder` whose second commit adds `slowdown_pct` % of the work.

    At 0 % the second commit changes a comment.
    """
    home = folder / "repo"
    (home / "models").mkdir(parents=True)
    _git(home, "init", "--quiet", "--initial-branch", "main")
    (home / ".gitignore").write_text(".hud\n__pycache__\n")
    (home / "hud.toml").write_text(
        f'[models.{MODEL}]\nbuild = "models/planted.py"\nnum_samples = 128\n'
    )
    (home / "models" / "planted.py").write_text(_MODEL_CODE)
    (home / "models" / "planted_call.py").write_text(_CALL_CODE)
    commits = [
        _commit(home, depth=depth, comment=comment)
        for depth, comment in zip(BLOCKS[slowdown_pct], ("before", "after"), strict=True)
    ]
    checkouts = []
    for name, commit in zip(("base", "head"), commits, strict=True):
        _git(home, "worktree", "add", "--quiet", "--detach", str(folder / name), commit)
        checkouts.append(folder / name)
    return PlantedRepository(
        folder=home, base=commits[0], head=commits[1], checkouts=(checkouts[0], checkouts[1])
    )


def _commit(home: Path, *, depth: int, comment: str) -> str:
    (home / "models" / "depth.py").write_text(f"# {comment}\nDEPTH = {json.dumps(depth)}\n")
    _git(home, "add", "--all")
    _git(home, "commit", "--quiet", "--message", comment)
    return _git(home, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *_IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
