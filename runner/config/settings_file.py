"""The text of a hud.toml and its errors, which name file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from compile_hud.db.shared.text import is_printable, masked, quoted, shortened
from compile_hud.runner.config.schema import HudToml, section_rows
from compile_hud.runner.config.section import SecretRefused, SectionError, did_you_mean
from compile_hud.runner.errors import ConfigError

CONFIG_NAME = "hud.toml"
# The message must stay readable after a pasted text.
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The text of a hud.toml, which locates a key by its line."""

    name: str
    text: str

    def parse(self) -> HudToml:
        """Return the sections; raise ConfigError with file, line and key."""
        tables = _parse_toml(self.text, name=self.name)
        for name in _names(tables):
            # A terminal would follow an escape sequence wherever the name is printed.
            if not is_printable(name):
                raise self._name_error(name)
        if not tables:
            # The defaults need no validators.
            return HudToml.model_construct()
        try:
            return HudToml.model_validate(tables)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        # An error in the handler would have the rejected values, which may be secrets, as context.
        raise self._refusal(min(details, key=_rank), tables)

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Report a SectionError as one of the section `name`."""
        try:
            yield
        except SectionError as error:
            raise self.error(name, key=error.key, problem=str(error)) from error

    def error(self, section: str, *, key: str | None = None, problem: str) -> ConfigError:
        """Return the error of a key, or of the whole section, with its line."""
        line = find_line(self.text, section=section, key=key)
        location = f"{self.name} line {line}" if line else self.name
        what = f"[{section}]" if key is None else f"[{section}] {key}"
        return ConfigError(f"{location}: {what}: {problem}", section=section, key=key, line=line)

    def _name_error(self, name: str) -> ConfigError:
        lines = enumerate(self.text.splitlines(), start=1)
        line = next((number for number, text in lines if name in _names_in(text)), None)
        location = f"{self.name} line {line}" if line else self.name
        return ConfigError(
            f"{location}: the name {quoted(name)} has control characters. Choose a name of"
            " printable characters",
            name=name,
            line=line,
        )

    def _refusal(self, details: ErrorDetails, tables: Mapping[str, Any]) -> ConfigError:
        path = [str(name) for name in details["loc"]]
        whole, section, key = ".".join(path), ".".join(path[:-1]), path[-1]
        rows = section_rows(section)
        match details["type"]:
            case "dict_type" | "model_type":
                problem = f"must be a section, write [{whole}] on its own line"
                return self.error(whole, problem=problem)
            case "extra_forbidden" if not section:
                near = did_you_mean(key, HudToml.model_fields)
                return self.error(key, problem=f"unknown section{near}")
            case "extra_forbidden":
                problem = f"unknown key{did_you_mean(key, rows)}"
                return self.error(section, key=key, problem=problem)
            case "missing":
                return self.error(section, problem=f"{key} is missing. {rows[key].description}")
        error = details["ctx"]["error"]
        if isinstance(error, SectionError):
            return self.error(whole, key=error.key, problem=str(error))
        value: Any = tables
        for name in path:
            value = value[name]
        # A password in an address may be anywhere, also where no address belongs.
        shown = shortened(masked(repr(value)), limit=_SHOWN)
        got = "" if isinstance(error, SecretRefused) else f"got {shown}, "
        return self.error(section, key=key, problem=f"{got}takes {error}")


def _rank(details: ErrorDetails) -> tuple[bool, int]:
    """Sort unknown names first, from the outside in, and else as the sections are declared."""
    is_name = details["type"] in ("extra_forbidden", "dict_type", "model_type")
    return not is_name, len(details["loc"]) if is_name else 0


def setting_error(section: str, *, key: str, problem: str, path: Path | None) -> ConfigError:
    """Return an error with the line of a setting in `path`, which may have changed since."""
    name = Path(CONFIG_NAME) if path is None else path
    try:
        text = name.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    return SettingsFile(name=str(name), text=text).error(section, key=key, problem=problem)


def find_line(content: str, *, section: str, key: str | None = None) -> int | None:
    """Return the 1-based line of `key` in `[section]`, or of the section's header, else None.

    A section may be a key of the one above it, and a key the header of a table.
    """
    setting = f"{section}.{key}" if key else section
    section_line = None
    current = ""
    for number, line in enumerate(content.splitlines(), start=1):
        header = _HEADER.fullmatch(line.strip())
        if header is not None:
            path = current = _plain(header[1])
        elif (match := _KEY.match(line.strip())) is not None:
            path = f"{current}.{_plain(match[1])}" if current else _plain(match[1])
        else:
            continue
        if key and (path == setting or path.startswith(f"{setting}.")):
            return number
        if path == section and (header is not None or section_line is None):
            section_line = number
    return section_line


_HEADER = re.compile(r"\[\s*([^\[\]]+?)\s*\]\s*(#.*)?")
_KEY = re.compile(r"""((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def _plain(name: str) -> str:
    return name.replace('"', "").replace("'", "").replace(" ", "")


def _names(table: object) -> Iterator[str]:
    """Yield the names of all sections and keys, at any depth: dotted keys nest without limit."""
    left = [table]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield from value
            left += value.values()
        elif isinstance(value, list):
            left += value


def _names_in(line: str) -> tuple[str, ...]:
    """Return the names that one line of TOML has, none for a part of a longer value."""
    try:
        return tuple(_names(tomllib.loads(line)))
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()


def _parse_toml(content: str, *, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except RecursionError:
        problem = f"{name}: not valid TOML: tables and lists are nested too deeply"
        raise ConfigError(problem, name=name, problem="toml", line=None) from None
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
        location = f" line {match[2]}, column {match[3]}" if match else ""
        raise ConfigError(
            f"{name}{location}: not valid TOML: {match[1] if match else error}",
            name=name,
            problem="toml",
            line=int(match[2]) if match else None,
        ) from error
