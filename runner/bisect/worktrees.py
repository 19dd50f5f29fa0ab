"""Commits of a repository in worktrees of their own; the user's working tree is never changed.

Worktrees share the objects of the repository, so a checkout costs only its files. The next
bisection removes the worktrees of a killed process.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compile_hud.db.shared.text import one_line
from compile_hud.runner.bisect.record import BisectRevision
from compile_hud.runner.errors import BisectError
from compile_hud.runner.execution.model_commits import NUM_CONTENT_DIGITS, NUM_DIGITS

# Hooks of the repository are meant for the user's own tree; they may build, or prompt the user.
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
# Git says this, in English for its locale, in a folder without a repository.
_NO_REPOSITORY = "not a git repository"
_FIELDS = "%H%x00%s%x00%an%x00%aI"
# The default bases of a comparison; the first existing one counts.
_DEFAULT_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
# A new file of code is smaller; what is larger and in no commit is data, and stays out of git.
_MAX_UNTRACKED_BYTES = 1 << 20
DIRTY_TITLE = "uncommitted changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCommit:
    """A commit with its label: `0123456789`, or `0123456789+worktree(5f3a)` for a working tree.

    The digits are of all files of the repository. `+dirty(...)` has those of one model.
    """

    revision: BisectRevision
    label: str
    is_working_tree: bool = False


def find_root(repository: Path) -> Path:
    """Return the top folder of the repository that `repository` is in; raise BisectError."""
    if not repository.is_dir():
        raise BisectError(
            f"there is no folder {repository}; --repo names a git repository", repository=repository
        )
    return Path(_git(repository, "rev-parse", "--show-toplevel").strip()).resolve()


def list_commits(repository: Path, *, good: str, bad: str) -> tuple[BisectRevision, ...]:
    """Return the commits from `good` to `bad` along first parents, both included, oldest first.

    Raises BisectError for a name that is no commit, and unless `good` comes before `bad`.
    """
    first, last = (_commit(repository, name) for name in (good, bad))
    if first == last:
        raise BisectError(
            f"{good} and {bad} are the same commit, {first[:10]}: nothing between",
            good=good,
            bad=bad,
        )
    if not _is_ancestor(repository, first, last):
        base = _git(repository, "merge-base", first, last).strip()[:10]
        raise BisectError(
            f"{good} does not come before {bad}, so there is no way from one to the other;"
            f" they have {base} in common: is that one good?",
            good=good,
            bad=bad,
            base=base,
        )
    between = _log(repository, "--first-parent", "--reverse", f"{first}..{last}")
    return (*_log(repository, "--max-count=1", first), *between)


def find_commit(repository: Path, name: str) -> NamedCommit:
    """Return the commit that `name` stands for; raise BisectError."""
    (revision,) = _log(repository, "--max-count=1", _commit(repository, name))
    return NamedCommit(revision=revision, label=revision.name[:NUM_DIGITS])


def find_base(repository: Path, name: str | None, *, head: str) -> NamedCommit:
    """Return the commit at which `head` branched off `name`, or off the default branch.

    It is the tip of `name` where a shallow history does not reach the branching. Raises BisectError
    where there is no such commit.
    """
    names = _DEFAULT_BASES if name is None else (name,)
    known = next((item for item in names if _is_commit(repository, item)), None)
    if known is None:
        raise BisectError(
            f"{repository} has none of {', '.join(names)} to compare with; --base names a commit,"
            " and in a shallow clone `git fetch origin BRANCH` brings one"
        )
    answer = _run(repository, "merge-base", known, head)
    return find_commit(repository, answer.stdout.strip() if answer.returncode == 0 else known)


def commit_working_tree(repository: Path) -> NamedCommit:
    """Return HEAD, or a commit of the files as they are where these are not those of HEAD.

    Neither the index nor any branch changes. Ignored files are left out, and new ones above 1 MiB.
    """
    head = find_commit(repository, "HEAD")
    tree = _write_tree(repository)
    if tree == _git(repository, "rev-parse", "HEAD^{tree}").strip():
        return head
    date = _git(repository, "log", "--max-count=1", "--format=%cI", "HEAD").strip()
    # One content has one commit: with the time of now there would be more with each comparison.
    author = {
        f"GIT_{role}_{key}": text
        for role in ("AUTHOR", "COMMITTER")
        for key, text in {"NAME": "Compile HUD", "EMAIL": "hud@localhost", "DATE": date}.items()
    }
    commit = _git(
        repository, "commit-tree", tree, "-p", "HEAD", "-m", DIRTY_TITLE, environment=author
    )
    label = f"{head.label}+worktree({tree[:NUM_CONTENT_DIGITS]})"
    return replace(find_commit(repository, commit.strip()), label=label, is_working_tree=True)


def _write_tree(repository: Path) -> str:
    """Return the tree of the files as they are."""
    with tempfile.TemporaryDirectory() as folder:
        index, names = Path(folder) / "index", Path(folder) / "names"
        # A copy, which knows what is unchanged: with an empty index git would read every file.
        own = _git(repository, "rev-parse", "--path-format=absolute", "--git-path", "index")
        if Path(own.strip()).is_file():
            shutil.copy2(own.strip(), index)
        environment = {"GIT_INDEX_FILE": str(index)}
        _git(repository, "add", "--update", environment=environment)
        new = _git(repository, "ls-files", "--others", "--exclude-standard", "-z")
        small = [name for name in new.split("\0") if name and _is_small(repository / name)]
        if small:
            names.write_text("\0".join(small), encoding="utf-8")
            options = (f"--pathspec-from-file={names}", "--pathspec-file-nul")
            literal = {"GIT_LITERAL_PATHSPECS": "1"}
            _git(repository, "add", *options, environment={**environment, **literal})
        return _git(repository, "write-tree", environment=environment).strip()


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
    # Outside of a repository this says so.
    _git(repository, "rev-parse", "--git-dir")
    if not _is_commit(repository, name):
        raise BisectError(
            f"no commit {name!r} in {repository}; `git -C {shlex.quote(str(repository))} fetch"
            " --all` brings those of its remotes",
            repository=repository,
        )
    return _git(
        repository, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"
    ).strip()


def _is_commit(repository: Path, name: str) -> bool:
    arguments = ("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return _run(repository, "rev-parse", *arguments).returncode == 0


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MAX_UNTRACKED_BYTES


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


def _git(repository: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of git; raise BisectError with its message if it fails."""
    answer = _run(repository, *arguments, environment=environment)
    if answer.returncode:
        if _NO_REPOSITORY in answer.stderr:
            raise BisectError(
                f"{repository} is in no git repository; name a folder of one with --repo",
                repository=repository,
            )
        lines = answer.stderr.strip().splitlines() or [f"it ended with {answer.returncode}"]
        raise BisectError(f"git {arguments[0]} in {repository}: {lines[-1]}", repository=repository)
    return answer.stdout


def _run(
    repository: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # A git hook that starts hud sets these variables, and they name another repository.
    inherited = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", *_NO_HOOKS, "-C", str(repository), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**inherited, **(environment or {}), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            # Ctrl-C in the terminal is for this process: git would leave an incomplete worktree.
            start_new_session=True,
        )
    except OSError as error:
        raise BisectError(
            f"cannot start git: {error.strerror}; install it", reason=error.strerror
        ) from error
