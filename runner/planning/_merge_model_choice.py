"""Which models a selection means: by name, by tag, and what it leaves out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from compile_hud.models_zoo.catalog.catalog import find_models
from compile_hud.models_zoo.catalog.spec import ModelSpec, UnknownNameError, near_names
from compile_hud.models_zoo.catalog.tags import tags_of
from compile_hud.runner.planning.suites import Selection


def choose_models(
    selection: Selection, *, catalog: Mapping[str, ModelSpec]
) -> tuple[ModelSpec, ...]:
    """Return the models of `selection`: named, with any of its tags if it has some, not excluded.

    Raises UnknownNameError for a name or a tag that matches nothing, and when no model is left.
    """
    named = find_models(selection.models, catalog=catalog)
    tags = dict.fromkeys(tag for spec in (*catalog.values(), *named) for tag in tags_of(spec))
    _check(selection.tags, known=tags, kind="tag")
    _check(
        selection.exclude, known={**catalog, **{spec.name: spec for spec in named}}, kind="model"
    )
    chosen = tuple(
        spec
        for spec in named
        if (not selection.tags or _matches(tags_of(spec), selection.tags))
        and not _matches([spec.name], selection.exclude)
    )
    if not chosen:
        tagged = f" tagged {' or '.join(selection.tags)}" if selection.tags else ""
        without = " that is not excluded" if selection.exclude else ""
        raise UnknownNameError(
            f"nothing to measure: of {', '.join(spec.name for spec in named)} there is no model"
            f"{tagged}{without}. `hud list models` shows the tags of each."
        )
    return chosen


def _matches(names: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _check(patterns: Collection[str], *, known: Collection[str], kind: str) -> None:
    for pattern in patterns:
        if not _matches(known, [pattern]):
            near = near_names(pattern, known)
            suggestion = f" Did you mean {near}?" if near else ""
            raise UnknownNameError(
                f"no {kind} matches {pattern!r}.{suggestion} `hud list models` shows them."
            )
