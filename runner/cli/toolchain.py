"""hud toolchain: build, list and remove the interpreters that cases are measured under."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.tables import Column, print_table, stderr
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN, Config
from compile_hud.runner.errors import ToolchainError
from compile_hud.runner.events import Notify
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.toolchains.installer import (
    InstallDependencies,
    ToolchainRequest,
    build_toolchain,
)
from compile_hud.runner.toolchains.registry import (
    Probe,
    built_toolchains,
    changing,
    check_unused,
    discard,
    put_back,
    toolchain_folder,
)
from compile_hud.runner.workspace import Workspace

# A name, extras, and versions or an address: https://peps.python.org/pep-0508/
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*((===?|[~!<>]=?)\s*[\w.*+!,<>=~ -]+|@\s*\S+)?"
)


@click.group("toolchain", cls=ExampleGroup)
def toolchain_group() -> None:
    """Build, list and remove toolchains."""


@toolchain_group.command(
    examples=(
        "hud toolchain add torch-2.12 --torch 2.12.0",
        "hud toolchain add next --nightly",
        "hud toolchain add numpy-2.1 --with numpy==2.1.0 --no-deps",
    ),
)
@click.argument("name")
@click.option("--torch", metavar="VERSION", help="Such as 2.12.0. Default: the newest.")
@click.option("--nightly", "is_nightly", is_flag=True, help="Pre-releases of torch count as well.")
@click.option("--python", metavar="PATH", help="The Python to build on. Default: that of hud.")
@click.option(
    "--index-url", metavar="URL", help="The package index of torch. Default: pip's setting."
)
@click.option(
    "--with",
    "packages",
    metavar="PKG",
    multiple=True,
    help="Install this as well, such as numpy==2.1.0, whatever version hud itself has.",
)
@click.option(
    "--no-deps",
    "without_dependencies",
    is_flag=True,
    help="Install what --with names last, and nothing that it needs: also against torch's pins.",
)
@click.option("--replace", "is_replaced", is_flag=True, help="Replace an existing toolchain.")
@with_workspace
def add(
    workspace: Workspace,
    *,
    name: str,
    torch: str | None,
    is_nightly: bool,
    python: str | None,
    index_url: str | None,
    packages: tuple[str, ...],
    without_dependencies: bool,
    is_replaced: bool,
) -> None:
    """Build a toolchain: a virtual environment with a torch.

    It has the packages of the models as well.
    """
    _check_packages(packages, without_dependencies=without_dependencies)
    _check_free(name, is_replaced=is_replaced, config=workspace.config)
    state_dir = workspace.config.state_dir
    request = ToolchainRequest(
        name=name,
        torch=torch,
        python=find_python(python),
        index_url=index_url,
        packages=packages,
        is_nightly=is_nightly,
        without_dependencies=without_dependencies,
    )
    notify = new_progress(workspace)
    dependencies = make_install_dependencies(workspace, notify=notify)
    built = build_toolchain(request, state_dir=state_dir, dependencies=dependencies)
    text = f"toolchain {name} is ready: {built}. `hud run --toolchain {name}` measures with it"
    stderr().print(text, markup=False, soft_wrap=True)


@toolchain_group.command(
    "list",
    examples=(
        "hud toolchain list",
        "hud toolchain list --json",
    ),
)
@json_option
@with_workspace
def list_toolchains(workspace: Workspace, *, as_json: bool) -> None:
    """Show the toolchains and whether their torch can be imported."""
    show_toolchains(workspace, as_json=as_json)


@toolchain_group.command(
    examples=("hud toolchain remove torch-2.12",),
)
@click.argument("name", type=TOOLCHAIN)
@with_workspace
def remove(workspace: Workspace, *, name: str) -> None:
    """Remove a toolchain that `hud toolchain add` built.

    Its results stay in the store.
    """
    config = workspace.config
    state_dir = config.state_dir
    folder = toolchain_folder(name, state_dir=state_dir)
    if not folder.exists() and name not in built_toolchains(state_dir):
        raise _nothing_to_remove(name, config=config)
    _check_unused(name, config=config)
    with changing(name, state_dir=state_dir):
        put_back(folder, state_dir=state_dir)
        check_unused(folder)
        discard(folder, state_dir=state_dir)
    echo(f"toolchain {name} is removed")


def _nothing_to_remove(name: str, *, config: Config) -> Exception:
    if name == CURRENT_TOOLCHAIN:
        return ToolchainError(f"toolchain {name} is the interpreter that runs hud")
    if name in config.toolchains:
        return ToolchainError(
            f"toolchain {name} was not built by `hud toolchain add`; it stands in {config.path}"
        )
    built = ", ".join(built_toolchains(config.state_dir)) or "none yet"
    return UnknownNameError(f"no toolchain {name!r} to remove. Built ones: {built}.")


def show_toolchains(workspace: Workspace, *, as_json: bool) -> None:
    """Print every toolchain with the versions that its interpreter reports."""
    config = workspace.config
    toolchains = config.toolchains
    # Each imports its torch, which takes seconds.
    with ThreadPoolExecutor() as pool:
        probes = dict(
            zip(
                toolchains, pool.map(workspace.dependencies.probe, toolchains.values()), strict=True
            )
        )
    sources = _sources(config)
    if as_json:
        print_json(
            [_to_json(name, toolchains[name], probes[name], sources[name]) for name in toolchains]
        )
        return
    names = ("toolchain", "torch", "python", "state", "from", "interpreter")
    rows = [
        (
            name,
            probes[name].torch_version or "-",
            probes[name].python_version or "-",
            probes[name].problem or "works",
            sources[name],
            str(python),
        )
        for name, python in toolchains.items()
    ]
    columns = [Column(name=column, is_prose=column == "state") for column in names]
    print_table(columns, rows=rows, spare=("from", "python"))


def _to_json(name: str, python: Path, probe: Probe, source: str) -> dict[str, Any]:
    return {
        "name": name,
        "python": str(python),
        "python_version": probe.python_version or None,
        "torch_version": probe.torch_version or None,
        "works": not probe.problem,
        "problem": probe.problem or None,
        "from": source,
    }


def _sources(config: Config) -> Mapping[str, str]:
    built = built_toolchains(config.state_dir)

    def source(name: str, python: Path) -> str:
        if name == CURRENT_TOOLCHAIN and str(python) == sys.executable:
            return "hud itself"
        return "hud toolchain add" if built.get(name) == python else str(config.path)

    return {name: source(name, python) for name, python in config.toolchains.items()}


def _check_packages(packages: Sequence[str], *, without_dependencies: bool) -> None:
    """Raise UsageError unless each is the requirement of a package, and no option of pip."""
    for text in packages:
        if _REQUIREMENT.fullmatch(text.strip()) is None:
            raise click.UsageError(
                f"--with takes a package, such as numpy or numpy==2.1.0, got {text!r}"
            )
    if without_dependencies and not packages:
        raise click.UsageError("--no-deps is about the packages of --with: name one")


def _check_free(name: str, *, is_replaced: bool, config: Config) -> None:
    # The form of the name is checked first: an invalid name cannot exist.
    toolchain_folder(name, state_dir=config.state_dir)
    is_built = name in built_toolchains(config.state_dir)
    if name in config.toolchains and not (is_built and is_replaced):
        how = ", or --replace this one" if is_built else ""
        python = config.toolchains[name]
        raise ToolchainError(
            f"there is a toolchain {name} already ({python}); choose another name{how}",
            name=name,
            python=python,
        )


def _check_unused(name: str, *, config: Config) -> None:
    users = [item.name for item in config.schedules.values() if item.toolchain == name]
    # If hud.toml defines the toolchain itself, removing the built one does not affect its
    # schedules.
    is_hidden = built_toolchains(config.state_dir).get(name) != config.toolchains.get(name)
    if users and not is_hidden:
        raise ToolchainError(
            f"toolchain {name} is used by [schedules.{users[0]}] in {config.path};"
            " change that first",
            name=name,
            file=config.path,
        )


def find_python(python: str | None) -> Path:
    """Return the Python to build on, hud's own for None; raise ToolchainError for none at all."""
    if python is None:
        return Path(sys.executable)
    path = shutil.which(python)
    if path is None:
        raise ToolchainError(
            f"there is no Python {python}; name one by its path or as in PATH", python=python
        )
    return Path(path)


def make_install_dependencies(workspace: Workspace, *, notify: Notify) -> InstallDependencies:
    """Return the dependencies of installations in `workspace`."""
    return InstallDependencies(
        facts=lambda interpreter: _worker_facts(interpreter, workspace=workspace),
        now=workspace.dependencies.now,
        notify=notify,
    )


def _worker_facts(python: Path, *, workspace: Workspace) -> Mapping[str, Any]:
    executor = executor_maker(workspace.dependencies.make_executor)(
        python=python, state_dir=workspace.config.state_dir, device="cpu"
    )
    try:
        return executor.open()
    finally:
        executor.close()
