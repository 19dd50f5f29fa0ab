"""The settings in force for the dashboard: each with its value, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tomllib

from compile_hud.db.shared.settings_snapshot import ShownReceiver, ShownSetting
from compile_hud.db.shared.text import counted, one_line, shortened
from compile_hud.runner.config.schema import ANY_KEY, SETTINGS
from compile_hud.runner.config.section import Setting
from compile_hud.runner.config.value_types import DURATION_UNITS, SIZE_UNITS
from compile_hud.runner.notifications.receivers.settings import (
    ENV,
    FILE,
    ReceiverKind,
    ReceiverSettings,
)
from compile_hud.runner.notifications.routes import Route

# The value of such a key is a secret, unless it names the source of one.
_SECRET = re.compile(r"secret|password|token|user$|headers?")
# Viewers need no full mail addresses of other people.
_PERSON = re.compile(r"[^\s,@*]+@")
_HIDDEN = "(not shown)"
# All of them travel in one variable of the environment.
_MAX_VALUE = 160
_MAX_DESCRIPTION = 320
_NAMED = ".NAME"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LINK_ALONE = re.compile(r" \(\[[^\]]*\]\([^)]*\)\)")
_GITHUB_HOST = "github.com"
_NO_FILTER = Route(name="", receivers=())
_ROUTE_FILTERS = tuple(
    item.name for item in fields(Route) if item.name not in ("name", "receivers", "imported")
)


def shown_settings(path: Path | None, *, env: Mapping[str, str]) -> tuple[ShownSetting, ...]:
    """Return the settings of the hud.toml at `path` with the defaults, readable tables only.

    A variable in `env` overrides the file.
    """
    tables = {} if path is None else _tables(path)
    rows: list[ShownSetting] = []
    for row in SETTINGS:
        section = row.section.removesuffix(_NAMED)
        table = tables.get(section, {})
        if not isinstance(table, Mapping):
            continue
        if row.section == section:
            rows += _rows(row, section, table, env=env)
        else:
            for name, values in table.items():
                if isinstance(values, Mapping):
                    rows += _rows(row, f"{section}.{name}", values, env=env)
    return tuple(sorted(rows, key=lambda item: item.section))


def _tables(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _rows(
    row: Setting, section: str, table: Mapping[str, Any], *, env: Mapping[str, str]
) -> Iterable[ShownSetting]:
    wins = env.get(row.variable, "") if row.variable else ""
    keys = list(table) if row.key == ANY_KEY else [row.key]
    return [
        ShownSetting(
            section=section,
            key=key,
            value=_value(row, key=key, value=wins or table.get(key, row.default)),
            is_set=key in table,
            description=shortened(without_links(row.description), limit=_MAX_DESCRIPTION),
            variable=row.variable if wins else "",
        )
        for key in keys
    ]


def without_links(text: str) -> str:
    """Return a description in one line whose links, which lead into the documents, are plain text.

    A link alone in brackets means nothing without its page and is removed.
    """
    return _LINK.sub(r"\1", _LINK_ALONE.sub("", one_line(text)))


def _value(row: Setting, *, key: str, value: object) -> str:
    *before, last = value if isinstance(value, (list, tuple)) and value else (value,)
    # Of several numbers only the last one carries the unit.
    if type(last) in (int, float) and (row.unit or not before):
        return ", ".join([*map(str, before), number_text(last, row=row)])
    return shown_value(key, value)


def number_text(value: float, *, row: Setting) -> str:
    """Return a number with the unit of `row`: `12 h`, `2 GB`, `20 %`, `1 night`.

    Nothing is rounded: a duration has the largest unit that divides it.
    """
    if row.unit == "s":
        fits = [(unit_s, name) for name, unit_s in DURATION_UNITS.items() if value % unit_s == 0]
        unit_s, name = max(fits) if value and fits else (1.0, "s")
        return f"{value / unit_s:.12g} {name}"
    if row.unit == "B":
        units = ((num_bytes, name) for name, num_bytes in SIZE_UNITS.items())
        num_bytes, name = max(unit for unit in units if unit[0] <= max(value, 1))
        return f"{value / num_bytes:.12g} {name or 'B'}"
    if row.unit == "%":
        return f"{100 * value:.12g} %"
    return counted(value, row.unit) if row.unit and isinstance(value, int) else str(value)


def shown_value(key: str, value: object) -> str:
    """Return the value of a setting as text, without possible secrets.

    The source of a secret is no secret. An address is reduced to scheme and host: the path of a
    webhook and the user of a store grant access.
    """
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return shortened(", ".join(shown_value(key, item) for item in value), limit=_MAX_VALUE)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return shortened(_table_text(key, value), limit=_MAX_VALUE)
    text = one_line(str(value))
    if text.startswith((ENV, FILE)):
        return shortened(text, limit=_MAX_VALUE)
    if _SECRET.search(key):
        return _HIDDEN
    shown = _address(text) if "://" in text else _PERSON.sub("...@", text)
    return shortened(shown, limit=_MAX_VALUE)


def _table_text(key: str, values: Mapping[str, object]) -> str:
    """Return a table as one line of TOML; a number is never a secret, whatever its key."""
    if _SECRET.search(key):
        return _HIDDEN
    texts = {
        name: str(item) if type(item) in (int, float) else shown_value(name, item)
        for name, item in values.items()
    }
    inner = ", ".join(f"{one_line(name)} = {text}" for name, text in texts.items())
    return f"{{ {inner} }}"


def _address(text: str) -> str:
    """Return an address without user, password, path and query; a file of this machine is whole."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _HIDDEN
    if not host:
        return text if parts.scheme.startswith(("duckdb", "file")) and "@" not in text else _HIDDEN
    rest = "/..." if parts.path.strip("/") or parts.query else ""
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{rest}"


def shown_receivers(
    receivers: Mapping[str, ReceiverSettings], *, routes: Sequence[Route]
) -> tuple[ShownReceiver, ...]:
    """Return the receivers of hud.toml without secrets, each with the routes that lead to it."""
    return tuple(
        ShownReceiver(
            name=name,
            kind=str(settings.kind),
            address=_receiver_address(settings),
            recipients=_recipients(settings),
            routes=tuple(
                (item.name, route_text(item)) for item in routes if name in item.receivers
            ),
            weekly="" if settings.weekly is None else f"{settings.weekly} {settings.timezone}",
        )
        for name, settings in receivers.items()
    )


def route_text(route: Route) -> str:
    """Return the filters of a route that are not those of every route, "" for none."""
    texts = [
        f"{name}: {', '.join(getattr(route, name))}"
        for name in _ROUTE_FILTERS
        if getattr(route, name) != getattr(_NO_FILTER, name)
    ]
    if route.imported:
        texts.append("imported results too")
    return shortened(one_line("; ".join(texts)), limit=_MAX_DESCRIPTION)


def _receiver_address(settings: ReceiverSettings) -> str:
    """Return the host of a receiver, or the source that has its address."""
    url = settings.url
    if url is None:
        return _GITHUB_HOST if settings.kind is ReceiverKind.GITHUB else ""
    if url.startswith((ENV, FILE)):
        return shortened(one_line(url), limit=_MAX_VALUE)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _HIDDEN
    return f"{host}{f':{port}' if port else ''}" if host else _HIDDEN


def _recipients(settings: ReceiverSettings) -> str:
    texts = settings.to or (settings.repository or settings.channel or "",)
    shown = (_PERSON.sub("...@", one_line(text)) for text in texts)
    return shortened(", ".join(shown), limit=_MAX_VALUE)
