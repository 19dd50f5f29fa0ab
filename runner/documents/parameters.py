"""The parameters of endpoints: their values in a request, and their JSON schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.shared.text import counted, is_storable, plain, quoted, shortened
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.errors import InvalidParameter

# Enough of a value to recognise it.
_MAX_SHOWN = 60
# Names of models have at most some hundred characters.
_MAX_TEXT = 2000
# Python reads further forms, such as `1_000` and digits of other scripts.
_NUMBERS = {
    int: re.compile(r"-?[0-9]+"),
    float: re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: a text, or a whole or real number with `bounds`.

    `choices` are the only values, None for any. A parameter `is_repeated` may come several times,
    and its value is a tuple. A parameter of the path is always required.
    """

    name: str
    description: str
    example: str | int | float
    kind: type[str] | type[int] | type[float] = str
    default: str | int | float | None = None
    choices: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    is_repeated: bool = False
    is_required: bool = False
    is_in_path: bool = False

    def read(self, texts: Sequence[str]) -> Any:
        """Return the value that `texts` stand for; raise InvalidParameter for others."""
        if len(texts) > 1 and not self.is_repeated:
            raise _bad(
                f"parameter {self.name!r} is given {counted(len(texts), 'time')}; give it once"
            )
        values = tuple(map(self._read_one, texts))
        if self.is_repeated:
            return values
        return values[0] if values else self.default

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the value."""
        schema: dict[str, Any] = {"type": _TYPES[self.kind]}
        if self.choices is not None:
            schema["enum"] = list(self.choices)
        if self.kind is str:
            # `_read_text` refuses a NUL character.
            schema |= {"maxLength": _MAX_TEXT, "pattern": r"^[^\u0000]*$"}
        if self.bounds is not None:
            schema |= dict(zip(("minimum", "maximum"), self.bounds, strict=True))
        if self.is_repeated:
            schema = {"type": "array", "items": schema}
        if self.default is not None:
            schema["default"] = self.default
        if self.is_in_path:
            schema["minLength"] = 1
        return schema

    def _read_one(self, text: str) -> Any:
        if not is_storable(text) or "\ufffd" in text:
            raise _bad(f"parameter {self.name!r} has bytes that are no UTF-8, or a NUL character")
        if len(text) > _MAX_TEXT:
            raise _bad(
                f"parameter {self.name!r} has {counted(len(text), 'character')}, at most"
                f" {_MAX_TEXT}"
            )
        if self.kind is str:
            return self._read_text(text)
        value: Any = self.kind(text) if _NUMBERS[self.kind].fullmatch(text) else None
        low, high = self.bounds or (float("-inf"), float("inf"))
        if value is None or not low <= value <= high:
            what = "a whole number" if self.kind is int else "a number"
            raise _bad(
                f"{self.name} is {what} from {plain(low)} to {plain(high)}, not {_shown(text)}"
            )
        return value

    def _read_text(self, text: str) -> str:
        if self.choices is not None and text not in self.choices:
            raise _bad(
                f"{self.name} is none of its values: {_shown(text)}",
                hint=near_hint(text, self.choices, noun="values"),
            )
        return text


_TYPES: Mapping[type, str] = {str: "string", int: "integer", float: "number"}


def read_values(
    texts: Mapping[str, Sequence[str]], parameters: Iterable[Parameter]
) -> dict[str, Any]:
    """Return the value of each parameter by name; `texts` are those that a request has.

    Raises InvalidParameter for unknown, missing and invalid ones.
    """
    known = {item.name: item for item in parameters}
    for name in texts:
        if name not in known:
            raise _bad(
                f"no parameter {_shown(name)}", hint=near_hint(name, list(known), noun="parameters")
            )
    for name, item in known.items():
        if (item.is_required or item.is_in_path) and not texts.get(name):
            raise _bad(f"parameter {name!r} is missing", hint=item.description)
    return {name: item.read(texts.get(name, ())) for name, item in known.items()}


def _bad(detail: str, *, hint: str = "") -> InvalidParameter:
    return InvalidParameter(detail, hint=hint)


def near_hint(text: str, names: Sequence[str], *, noun: str) -> str:
    """Return the `names` that are like `text`, and all of them."""
    near = near_names(text, names)
    listed = f"The {noun} are: {', '.join(names)}" if names else f"There are no {noun}"
    return f"Did you mean {near}? {listed}" if near else listed


def _shown(text: str) -> str:
    return quoted(shortened(text, limit=_MAX_SHOWN))
