"""Commits of a repository in worktrees of their own; the user's working tree is never changed.

Worktrees share the objects of the repository, so a checkout costs only its files. The next
bisection removes the worktrees of a killed process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compile_hud.db.shared.text import one_line
from compile_hud.runner.bisect.record import BisectRevision
from compile_hud.runner.errors import BisectError

# Hooks of the repository are meant for the user's own tree; they may build, or prompt the user.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
_FIELDS = "%H%x00%s%x00%an%x00%aI"


def find_root(repository: Path) -> Path:
    """Return the top folder of the repository that `repository` is in; raise BisectError."""
    if not repository.is_dir():
        raise BisectError(f"there is no folder {repository}; --repo names a git repository")
    return Path(_git(repository, "rev-parse", "--show-toplevel").strip()).resolve()


def list_commits(repository: Path, *, good: str, bad: str) -> tuple[BisectRevision, ...]:
    """Return the commits from `good` to `bad` along first parents, both included, oldest first.

    Raises BisectError for a name that is no commit, and unless `good` comes before `bad`.
    """
    first, last = (_commit(repository, name) for name in (good, bad))
    if first == last:
        raise BisectError(f"{good} and {bad} are the same commit, {first[:10]}: nothing between")
    if not _is_ancestor(repository, first, last):
        base = _git(repository, "merge-base", first, last).strip()[:10]
        raise BisectError(
            f"{good} does not come before {bad}, so there is no way from one to the other;"
            f" they have {base} in common: is that one good?"
        )
    between = _log(repository, "--first-parent", "--reverse", f"{first}..{last}")
    return (*_log(repository, "--max-count=1", first), *between)


class Worktrees:
    """The worktrees of one repository in `folder`, which is theirs alone."""

    def __init__(self, repository: Path, *, folder: Path) -> None:
        self._repository = repository
        self._folder = folder.absolute()

    def open(self, commit: str) -> Path:
        """Return the folder with the files of `commit`; raise BisectError."""
        path = self._folder / commit[:12]
        if not path.exists():
            arguments = ("worktree", "add", "--detach", "--force", "--quiet", str(path), commit)
            try:
                _git(self._repository, *arguments)
            except BisectError:
                shutil.rmtree(path, ignore_errors=True)
                raise
        return path.resolve()

    def keep_only(self, commits: Sequence[str]) -> None:
        """Remove all worktrees except those of `commits`."""
        names = {commit[:12] for commit in commits}
        for path in sorted(self._folder.glob("*")):
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)
        # git then forgets only the worktrees whose folders are missing.
        _git(self._repository, "worktree", "prune")


def _commit(repository: Path, name: str) -> str:
    return _git(
        repository, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"
    ).strip()


def _is_ancestor(repository: Path, first: str, last: str) -> bool:
    return _run(repository, "merge-base", "--is-ancestor", first, last).returncode == 0


def _log(repository: Path, *arguments: str) -> tuple[BisectRevision, ...]:
    text = _git(repository, "log", "--no-show-signature", f"--format={_FIELDS}", *arguments)
    fields = (line.split("\0") for line in text.splitlines() if line)
    return tuple(
        # Titles and authors are untrusted text.
        BisectRevision(
            name=name, title=one_line(title), author=one_line(author), authored_at=authored_at
        )
        for name, title, author, authored_at in fields
    )


def _git(repository: Path, *arguments: str) -> str:
    """Return the output of git; raise BisectError with its message if it fails."""
    answer = _run(repository, *arguments)
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or [f"it ended with {answer.returncode}"]
        raise BisectError(f"git {arguments[0]} in {repository}: {lines[-1]}")
    return answer.stdout


def _run(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A git hook that starts hud sets these variables, and they name another repository.
    environment = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", *_NO_HOOKS, "-C", str(repository), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            # Ctrl-C in the terminal is for this process: git would leave an incomplete worktree.
            start_new_session=True,
        )
    except OSError as error:
        raise BisectError(f"cannot start git: {error.strerror}; install it") from error
