"""Which commit the code of each model was at: a model that changed is a suspect of its own step."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from compile_hud import models_zoo
from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX, ModelSpec

# What the models of the catalog are called together; they are of one repository.
ZOO = "models_zoo"
# `git status` of a large repository on a slow disk; a run shall not wait for it any longer.
GIT_TIMEOUT_S = 20.0
NUM_DIGITS = 10
CHANGED = "+changes"


def model_commits(specs: Iterable[ModelSpec]) -> dict[str, str]:
    """Return the commit that the file of each model is at, by model, ten digits of it.

    `+changes` follows when the model's folder has changes that are not committed. The models of
    the zoo are one entry; what is in no repository, or is named as a module, has none.
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
    # A folder that git does not track belongs to no commit, whatever repository is around it.
    if not commit or not _git(folder, "ls-files", "."):
        return None
    changes = _git(folder, "status", "--porcelain", "--", ".")
    return commit[:NUM_DIGITS] + (CHANGED if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says, None where there is no git or no repository."""
    command = ["git", "-C", str(folder), *arguments]
    # Where hud is started by a hook, these name another repository than the one that is meant.
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
