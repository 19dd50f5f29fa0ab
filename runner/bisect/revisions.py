"""The revisions of a bisection: prepare them for launches, and close them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from compile_hud.runner.bisect.worktrees import Worktrees
from compile_hud.runner.errors import BisectError, ExecutorError, RevisionUnusable, ToolchainError
from compile_hud.runner.execution.environment import revision
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.model_commits import checkout_revision
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.protocol.messages import Checkout

OpenExecutor = Callable[[Path], Executor]


class Revisions(Protocol):
    """Revisions by their index, oldest first."""

    def side(self, index: int) -> PairSide:
        """Return the revision, ready to be launched; raise RevisionUnusable."""
        ...

    def title(self, index: int) -> str:
        """Return the title of a revision; empty without one."""
        ...

    def facts(self, index: int) -> Mapping[str, Any]:
        """Return the facts of the environment of a revision that was opened."""
        ...

    def keep_only(self, indices: Collection[int]) -> None:
        """Close every revision but those at `indices`."""
        ...

    def cancel(self) -> None:
        """Kill the current launch; safe in a signal handler."""
        ...

    def close(self) -> None:
        """End the worker hosts, and remove temporary files."""
        ...


class CommitRevisions:
    """Commits of a repository, all under one interpreter and in one worker host.

    One host, since the launches of two hosts differ by more than those of one.
    """

    def __init__(
        self,
        commits: Sequence[str],
        *,
        repository: Path,
        worktrees: Worktrees,
        executor: Executor,
        order: CaseOrder,
    ) -> None:
        self._commits = commits
        self._repository = repository
        self._worktrees = worktrees
        self._executor = executor
        self._order = order
        self._facts: Mapping[str, Any] | None = None
        # A killed process may have left an incomplete checkout.
        worktrees.keep_only(())

    def side(self, index: int) -> PairSide:
        """Return the commit, checked out; raise RevisionUnusable."""
        try:
            folder = self._worktrees.open(self._commits[index])
        except BisectError as error:
            raise RevisionUnusable(
                f"it cannot be checked out: {error}", reason=str(error)
            ) from error
        if self._facts is None:
            self._facts = self._executor.open()
        order = checkout_order(self._order, repository=self._repository, folder=folder)
        return PairSide(executor=self._executor, order=order)

    def title(self, index: int) -> str:
        """Return nothing: the titles of commits are known from the beginning."""
        del index
        return ""

    def facts(self, index: int) -> Mapping[str, Any]:
        """Return the facts of the one environment."""
        del index
        assert self._facts is not None
        return self._facts

    def keep_only(self, indices: Collection[int]) -> None:
        """Remove all other checkouts."""
        self._worktrees.keep_only([self._commits[index] for index in indices])

    def cancel(self) -> None:
        self._executor.cancel()

    def close(self) -> None:
        """End the worker host and remove every checkout."""
        self._executor.close()
        self._worktrees.keep_only(())


def checkout_order(order: CaseOrder, *, repository: Path, folder: Path) -> CaseOrder:
    """Return `order` for the code in `folder`, where a commit of `repository` is checked out."""
    workload = replace(
        order.workload,
        build=_moved_build(order.workload.build, repository, folder),
        checkout=Checkout(folder=str(folder), repository=str(repository)),
    )
    return replace(order, workload=workload)


def model_revision(order: CaseOrder, *, working_tree: str = "") -> str:
    """Return the revision of the model's code in the checkout of `order`, empty without one.

    `working_tree` is the commit of uncommitted changes, if the checkout is of one.
    """
    checkout = order.workload.checkout
    if checkout is None:
        return ""
    repository, folder = Path(checkout.repository), Path.cwd()
    if folder.is_relative_to(repository):
        folder = Path(checkout.folder) / folder.relative_to(repository)
    return checkout_revision(order.workload.build, folder=folder, working_tree=working_tree)


def _moved_build(build: str, repository: Path, folder: Path) -> str:
    """Return `build` with a file of `repository` named as that of the checkout in `folder`."""
    file, colon, attribute = build.partition(":")
    if not file.endswith(".py") or not Path(file).is_relative_to(repository):
        return build
    return f"{folder / Path(file).relative_to(repository)}{colon}{attribute}"


class ToolchainRevisions:
    """Toolchains, each with a worker host of its own while the search needs it.

    `find_python` builds the toolchain if necessary and raises ToolchainError. `drop` is called for
    a toolchain that the search no longer needs.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        find_python: Callable[[str], Path],
        drop: Callable[[str], None],
        make_executor: OpenExecutor,
        order: CaseOrder,
    ) -> None:
        self._names = names
        self._find_python = find_python
        self._drop = drop
        self._make_executor = make_executor
        self._order = order
        self._executors: dict[int, Executor] = {}
        self._titles: dict[int, str] = {}
        self._facts: dict[int, Mapping[str, Any]] = {}

    def side(self, index: int) -> PairSide:
        """Return the toolchain, built and started; raise RevisionUnusable."""
        if index not in self._executors:
            try:
                executor = self._make_executor(self._find_python(self._names[index]))
                self._executors[index] = executor
                self._facts[index] = executor.open()
                self._titles[index] = f"torch {revision(self._facts[index])}"
            except (ExecutorError, ToolchainError) as error:
                self._end(index)
                raise RevisionUnusable(f"it cannot be used: {error}", reason=str(error)) from error
        return PairSide(executor=self._executors[index], order=self._order)

    def title(self, index: int) -> str:
        """Return the torch of a toolchain that was started."""
        return self._titles.get(index, "")

    def facts(self, index: int) -> Mapping[str, Any]:
        """Return the facts of a toolchain that was started."""
        return self._facts[index]

    def keep_only(self, indices: Collection[int]) -> None:
        """End the other worker hosts, and drop their toolchains."""
        for index, name in enumerate(self._names):
            if index not in indices:
                self._end(index)
                self._drop(name)

    def cancel(self) -> None:
        for executor in self._executors.values():
            executor.cancel()

    def close(self) -> None:
        """End every worker host."""
        for index in list(self._executors):
            self._end(index)

    def _end(self, index: int) -> None:
        executor = self._executors.pop(index, None)
        if executor is not None:
            executor.close()
