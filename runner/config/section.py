"""The base of the sections of hud.toml, and what its keys have besides their type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

from compile_hud.db.shared.text import masked, quoted
from compile_hud.models_zoo.catalog.spec import near_names


class SecretRefused(ValueError):
    """The rejected value of a setting may be a secret, so the message does not contain it."""


class SectionError(ValueError):
    """A section contradicts itself or another one; `key` is at fault, None for all of it."""

    def __init__(self, problem: str, *, key: str | None = None) -> None:
        super().__init__(problem)
        self.key = key


class ConfigSection(BaseModel):
    """A section of hud.toml. A key without a field is an error, and no value is converted."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        # A rejected value may be a secret.
        hide_input_in_errors=True,
        # To build the validators of all sections takes longer than to read any hud.toml.
        defer_build=True,
    )


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number: `s`, `B`, `%`, or in the singular what a whole number counts."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """The environment variable that overrides a key."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of hud.toml, for documents and for the dashboard."""

    section: str
    key: str
    description: str
    default: Any = None
    is_required: bool = False
    unit: str = ""
    variable: str = ""


def settings_of(section: str, model: type[ConfigSection]) -> Iterator[Setting]:
    """Yield the settings of a section with the fields of `model`."""
    for key, field in model.model_fields.items():
        names = {type(item): item.name for item in _metadata(field)}
        yield Setting(
            section=section,
            key=key,
            description=field.description or "",
            default=None if field.is_required() else field.default,
            is_required=field.is_required(),
            unit=names.get(Unit, ""),
            variable=names.get(Variable, ""),
        )


def _metadata(field: FieldInfo) -> Iterator[Unit | Variable]:
    # The type of `X | None` has the metadata of X inside.
    inner = (getattr(part, "__metadata__", ()) for part in get_args(field.annotation))
    for item in (*field.metadata, *(item for items in inner for item in items)):
        if isinstance(item, Unit | Variable):
            yield item


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with similar names, or the list of all if none is similar."""
    names = list(known)
    if not names:
        return "; none is defined"
    near = near_names(name, names)
    return f"; did you mean {near}?" if near else f"; there is {', '.join(names)}"


def check_name(kind: str, name: str, known: Iterable[str], *, key: str = "") -> None:
    """Raise SectionError, of the key `key` or `kind`, if `name` is none of the `known` names."""
    if name not in known:
        problem = f"no {kind} {quoted(masked(name))}{did_you_mean(name, known)}"
        raise SectionError(problem, key=key or kind)
