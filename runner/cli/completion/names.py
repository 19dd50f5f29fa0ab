"""Options and arguments whose values a shell completes from the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import MEASURED_DTYPES, MEASURED_PHASES
from compile_hud.models_zoo.catalog.shapes import ZOO_SIZES
from compile_hud.models_zoo.catalog.tags import tags_of
from compile_hud.runner.config.load import Config, load_config
from compile_hud.runner.errors import RunnerError
from compile_hud.runner.planning.suites import AUTO_SHAPE

_SHAPES = (*ZOO_SIZES, AUTO_SHAPE)


class KnownName(click.ParamType[str]):
    """A name, or a glob of names, that a shell completes; every value is taken."""

    name = "text"

    def __init__(self, names: Callable[[Config], Iterable[str]]) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`; broken settings have none."""
        del param
        try:
            config = load_config(ctx.params.get("config_path"), env=os.environ)
        # A message would be written into the line that is being typed.
        except (RunnerError, OSError):
            return []
        return [CompletionItem(name) for name in self._names(config) if name.startswith(incomplete)]


def _known_tags(config: Config) -> Iterable[str]:
    return sorted({tag for spec in config.catalog.values() for tag in tags_of(spec)})


def _fixed(names: Iterable[Any]) -> Callable[[Config], Iterable[str]]:
    return lambda _config: list(map(str, names))


MODEL = KnownName(lambda config: config.catalog)
MODE = KnownName(lambda config: config.variants)
SUITE = KnownName(lambda config: config.suites)
TOOLCHAIN = KnownName(lambda config: config.toolchains)
TAG = KnownName(_known_tags)
PHASE = KnownName(_fixed(MEASURED_PHASES))
DTYPE = KnownName(_fixed(MEASURED_DTYPES))
SHAPE = KnownName(_fixed(_SHAPES))
METRIC = KnownName(_fixed(METRICS))
