"""The names in the suites of hud.toml, checked where a suite is used.

They are no part of loading the settings: a dashboard without the packages of own models loads the
same file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.runner.config.load import Config
from compile_hud.runner.config.settings_file import setting_error
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.planning.selection import choose_models, choose_shapes
from compile_hud.runner.planning.suites import BUILTIN_SUITES, Suite


def check_suite(suite: Suite, *, config: Config, overridden: Collection[str] = ()) -> None:
    """Raise ConfigError, with file and line, if a name in a suite of hud.toml matches nothing.

    `overridden` are the keys whose values are those of a command: UnknownNameError names them.
    """
    stored = config.suites.get(suite.name)
    if stored is None or stored == BUILTIN_SUITES.get(suite.name):
        return
    selection = suite.selection
    models = tuple(name for name in selection.models if name not in REFERENCES)
    if not models:
        return
    named, catalog = replace(selection, models=models), config.catalog
    tagged = replace(named, exclude=())
    # Each check needs those before it.
    checks: dict[str, Callable[[], object]] = {
        "models": lambda: choose_models(replace(tagged, tags=()), catalog=catalog),
        "tags": lambda: choose_models(tagged, catalog=catalog),
        "exclude": lambda: choose_models(named, catalog=catalog),
        "modes": lambda: find_names(named.modes, known=config.variants, kind="mode"),
        "shape": lambda: choose_shapes(
            choose_models(named, catalog=catalog), selection=named, device="cpu"
        ),
    }
    for key, check in checks.items():
        try:
            check()
        except UnknownNameError as error:
            if key in overridden:
                raise
            raise setting_error(
                f"suites.{suite.name}", key=key, problem=str(error), path=config.path
            ) from error
