"""The revision of each model's code: a changed model is a suspect for its own step.

The code is the files of `model_files`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from compile_hud import models_zoo
from compile_hud.db.shared.model_code import ZOO
from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX, ModelSpec
from compile_hud.runner.files.model_files import model_files

# `git status` of a large repository can be slow on a slow disk; a run waits no longer than this.
GIT_TIMEOUT_S = 20.0
NUM_DIGITS = 10
NUM_CONTENT_DIGITS = 4


def model_commits(specs: Iterable[ModelSpec]) -> dict[str, str]:
    """Return the revision of each model's code, by model: commit and content.

    It is the first ten digits of the last commit of its files, and of those that it imports from
    its own folder or package. Uncommitted changes make it `0123456789+dirty(5f3a)`, with digits of
    the content. Outside of a repository it is the content alone, `content(5f3a9c0d)`. The models of
    the zoo are one entry, and an installed module has none.
    """
    revisions: dict[str, str] = {}
    for spec in sorted(specs, key=lambda item: item.name):
        if not spec.build.startswith(ZOO_PREFIX):
            files = model_files(spec.build, folder=Path.cwd())
        elif ZOO not in revisions:
            files = tuple(sorted(Path(models_zoo.__path__[0]).resolve().rglob("*.py")))
        else:
            continue
        if files:
            name = ZOO if spec.build.startswith(ZOO_PREFIX) else spec.name
            revisions[name] = _revision(files)
    return dict(sorted(revisions.items()))


def checkout_revision(build: str, *, folder: Path, working_tree: str = "") -> str:
    """Return the revision of one model's code in a checkout, empty without files.

    `folder` is what the working directory is there. `working_tree` is the commit that was made of
    uncommitted changes, if the checkout is of one: a model that it changes has the revision that
    `model_commits` returns for the files themselves.
    """
    files = model_files(build, folder=folder)
    return _revision(files, working_tree=working_tree) if files else ""


def _revision(files: Sequence[Path], *, working_tree: str = "") -> str:
    digest = content_digest(files)
    folder, names = files[0].parent, [str(path) for path in files]
    commit = _last_commit("HEAD", files)
    is_dirty = bool(_git(folder, "status", "--porcelain", "--", *names))
    if commit and commit == working_tree:
        commit, is_dirty = _last_commit("HEAD^", files), True
    if not commit:
        return f"content({digest[: 2 * NUM_CONTENT_DIGITS]})"
    dirty = f"+dirty({digest[:NUM_CONTENT_DIGITS]})" if is_dirty else ""
    return f"{commit[:NUM_DIGITS]}{dirty}"


def _last_commit(start: str, files: Sequence[Path]) -> str | None:
    names = [str(path) for path in files]
    return _git(files[0].parent, "log", "--max-count=1", "--format=%H", start, "--", *names)


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


def content_digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 over names and bytes of `files`, the same in every checkout."""
    digest = hashlib.sha256()
    start = files[0].parent
    for name, path in sorted((os.path.relpath(path, start), path) for path in files):
        digest.update(f"{name}\0".encode(errors="surrogateescape"))
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
