"""The common options, errors and output of all commands."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.shared.text import is_storable, quoted
from compile_hud.db.store import Store
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.config.load import load_config
from compile_hud.runner.config.schema import DEFAULT_STATE
from compile_hud.runner.documents.filtered.empty_store import empty_text, missing_text
from compile_hud.runner.errors import NoSuchResult
from compile_hud.runner.workspace import Dependencies, Workspace

_Function = TypeVar("_Function", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")


def with_workspace(function: _Function) -> _Function:
    """Add `--store` and `--config` and pass their Workspace as the first argument."""

    @click.option(
        "--store", "store_url", metavar="URL", help="The store, instead of the configured one."
    )
    @click.option(
        "--config",
        "config_path",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The settings, instead of ./hud.toml.",
    )
    @click.pass_context
    def wrapper(
        context: click.Context,
        /,
        *args: Any,
        store_url: str | None,
        config_path: Path | None,
        **options: Any,
    ) -> Any:
        _check_texts(context)
        dependencies = context.obj if isinstance(context.obj, Dependencies) else Dependencies()
        config = load_config(config_path, env=dependencies.env)
        if store_url is not None:
            config = replace(config, store_url=as_store_url(store_url))
        workspace = Workspace(config=config, dependencies=dependencies)
        try:
            return function(workspace, *args, **options)
        except NotFoundError as error:
            # A file may be what is missing.
            if "store" in error.parameters:
                check_exists(workspace.store())
            raise
        finally:
            _hide_from_git(config.state_dir)

    return cast("_Function", functools.update_wrapper(wrapper, function))


def _hide_from_git(folder: Path) -> None:
    """Let git ignore a state directory in a repository: `git add .` would take measured data.

    Any other name than the default may be that of a folder with files of the user.
    """
    ignore = folder / ".gitignore"
    if folder.name == DEFAULT_STATE and folder.is_dir() and not ignore.exists():
        # Not a reason to fail: the folder may be read-only or the disk full.
        with contextlib.suppress(OSError):
            ignore.write_text("*\n", encoding="utf-8")


def _check_texts(context: click.Context) -> None:
    """Raise UsageError for a text argument that is no UTF-8; a path may have any bytes."""
    for param in context.command.params:
        value = context.params.get(param.name or "")
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and not is_storable(text):
                raise click.BadParameter(
                    f"{quoted(text)} is no text: it has bytes that are no UTF-8, or a NUL"
                    " character",
                    ctx=context,
                    param=param,
                )


def gather_options(
    kind: type[Any], *, name: str, options: Sequence[Callable[[Any], Any]]
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds `options` and passes their values as the record `name`.

    `kind` is a dataclass with a field for the parameter of each option.
    """

    def decorate(function: _Function) -> _Function:
        def wrapper(*args: Any, **values: Any) -> Any:
            record = kind(**{item.name: values.pop(item.name) for item in fields(kind)})
            return function(*args, **{name: record}, **values)

        wrapped = functools.update_wrapper(wrapper, function)
        for option in reversed(options):
            wrapped = option(wrapped)
        return cast("_Function", wrapped)

    return decorate


def as_store_url(text: str) -> str:
    """Return `text` as a store URL; a plain path is that of a DuckDB file."""
    return text if "://" in text else f"duckdb:///{text}"


def check_exists(store: Store) -> None:
    """Raise NoSuchResult where there is no `store` yet: the user may have meant another."""
    if store.is_missing():
        raise NoSuchResult(missing_text(store), store=store.name)


def say_when_empty(store: Store) -> bool:
    """Return whether `store` has no run, with a notice; raise NoSuchResult for a missing one."""
    check_exists(store)
    text = empty_text(store)
    if text:
        echo(text, err=True)
    return bool(text)


def print_json(value: Any) -> None:
    """Print `value` to standard output."""
    echo(json.dumps(value, indent=2, allow_nan=False))
