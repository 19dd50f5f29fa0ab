"""The commit of each model's code: a changed model is a suspect for its own step."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from compile_hud import models_zoo
from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX, ModelSpec

# The common name of the catalog's models, which share a repository.
ZOO = "models_zoo"
# `git status` of a large repository can be slow on a slow disk; a run waits no longer than this.
GIT_TIMEOUT_S = 20.0
NUM_DIGITS = 10
CHANGED = "+changes"


def model_commits(specs: Iterable[ModelSpec]) -> dict[str, str]:
    """Return the first ten digits of the commit of each model's file, by model.

    `+changes` marks uncommitted changes in the model's folder. The models of the zoo are one entry.
    A model outside a repository, or one named as a module, has none.
    """
    folders = {}
    for spec in specs:
        file = spec.build.partition(":")[0]
        if file.endswith(".py"):
            folders[spec.name] = Path(file).parent
        elif file.startswith(ZOO_PREFIX):
            folders[ZOO] = Path(models_zoo.__path__[0])
    commits = {folder: _commit(folder) for folder in set(folders.values())}
    return {name: commit for name, folder in sorted(folders.items()) if (commit := commits[folder])}


def _commit(folder: Path) -> str | None:
    commit = _git(folder, "rev-parse", "HEAD")
    # An untracked folder has no commit, even inside a repository.
    if not commit or not _git(folder, "ls-files", "."):
        return None
    changes = _git(folder, "status", "--porcelain", "--", ".")
    return commit[:NUM_DIGITS] + (CHANGED if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git, None without git or a repository."""
    command = ["git", "-C", str(folder), *arguments]
    # A git hook that starts hud sets these variables, and they name another repository.
    environment = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
