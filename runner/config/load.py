"""Read and check hud.toml; errors name the line."""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

import tomllib

from compile_hud.db.shared.trace_paths import traces_folder
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.shapes import AXES
from compile_hud.models_zoo.catalog.spec import ModelSpec, Variant, near_names
from compile_hud.models_zoo.catalog.variants import MODES, VARIANTS
from compile_hud.runner.config.named_shapes import NamedShapeError, ShapeRule, with_shapes
from compile_hud.runner.config.notifications import (
    ROUTE_NAMES,
    WrongReceiver,
    check_receiver,
    make_route,
)
from compile_hud.runner.config.own_variants import OwnVariantError, own_variant
from compile_hud.runner.config.postgres_password import with_password
from compile_hud.runner.config.schedules import Schedule, ScheduleError, make_schedule
from compile_hud.runner.config.schema import ANY_KEY, SETTINGS, section_rows
from compile_hud.runner.config.setting import SecretRefused, Setting
from compile_hud.runner.config.sign_in import SignIn, make_sign_in
from compile_hud.runner.config.user_models import OwnModelError, installed_models, own_model
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.notifications.receivers.settings import ReceiverSettings
from compile_hud.runner.notifications.routes import Route
from compile_hud.runner.persistence.trace_retention import TraceRules
from compile_hud.runner.planning.suites import BUILTIN_SUITES, Selection, Suite
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.system.dashboard_urls import dashboard_url
from compile_hud.runner.toolchains.registry import built_toolchains

logger = logging.getLogger(__name__)

CONFIG_NAME = "hud.toml"
CURRENT_TOOLCHAIN = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings in force. `path` is None when there is no hud.toml."""

    path: Path | None
    store_url: str
    state_dir: Path
    machine: str
    measure: MeasureSettings
    has_references: bool
    has_confirmation: bool
    wait_idle_s: float
    # None is the default of the device.
    compile_ahead: int | None
    confirm_share: float
    toolchains: Mapping[str, Path]
    suites: Mapping[str, Suite]
    schedules: Mapping[str, Schedule]
    catalog: Mapping[str, ModelSpec]
    variants: Mapping[str, Variant]
    traces_folder: Path | None
    trace_rules: TraceRules
    sample_nights: int | None
    outbox_days: int
    host: str
    port: int
    perfetto_url: str
    sign_in: SignIn
    public_url: str
    link_secret: str | None
    link_days: int
    receivers: Mapping[str, ReceiverSettings]
    routes: tuple[Route, ...]

    @property
    def traces_dir(self) -> Path | None:
        """Return the folder of stored traces, None if traces are not stored."""
        return traces_folder(self.store_url, named=self.traces_folder)

    @property
    def dashboard(self) -> str:
        """Return the address of the dashboard: the public one, or that of this machine."""
        return self.public_url or dashboard_url(host=self.host, port=self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SettingsText:
    """The text of a hud.toml, which locates a key by its line."""

    name: str
    text: str
    tables: Mapping[str, Any] = field(default_factory=dict)

    def fail(self, section: str, *, key: str | None = None, problem: str) -> NoReturn:
        raise self.error(section, key=key, problem=problem)

    def error(self, section: str, *, key: str | None, problem: str) -> ConfigError:
        line = find_line(self.text, section=section, key=key)
        location = f"{self.name} line {line}" if line else self.name
        what = f"[{section}]" if key is None else f"[{section}] {key}"
        return ConfigError(f"{location}: {what}: {problem}", section=section, key=key, line=line)


def setting_error(section: str, *, key: str, problem: str, path: Path | None) -> ConfigError:
    """Return an error with the line of a setting in `path`, which may have changed since."""
    name = Path(CONFIG_NAME) if path is None else path
    try:
        text = name.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    return _SettingsText(name=str(name), text=text).error(section, key=key, problem=problem)


def load_config(path: Path | None, *, env: Mapping[str, str]) -> Config:
    """Return the settings of `path`, of HUD_CONFIG or of ./hud.toml, or the defaults.

    Raises ConfigError when a file that was named does not exist or when anything in it is wrong.
    """
    named = path or (Path(env["HUD_CONFIG"]) if env.get("HUD_CONFIG") else None)
    chosen = named or Path(CONFIG_NAME)
    if named is None and not chosen.exists():
        return parse_config(
            "", path=None, env=env, built=built_toolchains, installed=installed_models
        )
    try:
        content = chosen.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"cannot read the settings in {chosen}: there is no such file. Name one that is there"
            " with --config or HUD_CONFIG, or none to go without",
            path=chosen,
            problem="missing",
        ) from error
    except IsADirectoryError as error:
        raise ConfigError(
            f"cannot read the settings in {chosen}: it is a folder. Name the file in it",
            path=chosen,
            problem="folder",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"cannot read the settings in {chosen}: byte {error.start} is no UTF-8. Save the file"
            " as UTF-8",
            path=chosen,
            problem="encoding",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read the settings in {chosen}: {error.strerror}. Who runs hud must be able"
            " to read the file",
            path=chosen,
            reason=error.strerror,
        ) from error
    return parse_config(
        content, path=chosen, env=env, built=built_toolchains, installed=installed_models
    )


def parse_config(
    content: str,
    *,
    path: Path | None,
    env: Mapping[str, str],
    built: Callable[[Path], Mapping[str, Path]] = lambda _state_dir: {},
    installed: Callable[[], Mapping[str, ModelSpec]] = dict,
) -> Config:
    """Return the settings in `content`, the text of `path`.

    `built` returns the toolchains that `hud toolchain add` built in a state directory. `installed`
    returns the models of installed packages. Entries of `content` override both.

    Raises ConfigError with file, line and key.
    """
    name = CONFIG_NAME if path is None else str(path)
    source = _SettingsText(name=name, text=content, tables=_parse_toml(content, name=name))
    _check_sections(source)
    base = Path() if path is None else path.parent
    run = _values(source, "run", source.tables.get("run", {}))
    server = _values(source, "server", source.tables.get("server", {}))
    state = _values(source, "paths", source.tables.get("paths", {}))["state"]
    state_dir = Path(env["HUD_STATE_DIR"]) if env.get("HUD_STATE_DIR") else base / state
    url = _values(source, "store", source.tables.get("store", {}))["url"]
    traces = _values(source, "traces", source.tables.get("traces", {}))
    samples = _values(source, "samples", source.tables.get("samples", {}))
    suites = {**BUILTIN_SUITES, **_suites(source)}
    own_toolchains = built(state_dir)
    toolchains = _toolchains(source, base, built=own_toolchains)
    return Config(
        path=path,
        store_url=with_password(
            env.get("HUD_DATABASE_URL") or url or default_store_url(state_dir), env=env
        ),
        state_dir=state_dir,
        machine=_values(source, "machine", source.tables.get("machine", {}))["name"]
        or socket.gethostname(),
        measure=_measure_settings(run),
        has_references=run["reference_cases"],
        has_confirmation=run["confirm"],
        wait_idle_s=run["wait_idle"],
        compile_ahead=run["compile_ahead"],
        confirm_share=run["confirm_share"],
        toolchains=toolchains,
        suites=suites,
        schedules=_schedules(source, suites=suites, toolchains=toolchains, built=own_toolchains),
        catalog=_with_shapes(source, {**CATALOG, **installed(), **_models(source, base)}),
        variants=_variants(source),
        traces_folder=None if traces["folder"] is None else base / traces["folder"],
        trace_rules=TraceRules(num_nights=traces["nights"], max_bytes=traces["max_size"]),
        sample_nights=samples["nights"],
        outbox_days=_values(source, "outbox", source.tables.get("outbox", {}))["days"],
        sign_in=_sign_in(source, base, is_open=server["without_sign_in"]),
        **_reached(server),
        receivers=_receivers(source, base),
        routes=_routes(source),
    )


def _sign_in(source: _SettingsText, base: Path, *, is_open: bool) -> SignIn:
    return make_sign_in(
        _values(source, "auth", source.tables.get("auth", {})),
        is_open=is_open,
        base=base,
        fail=lambda key, problem: source.fail("auth", key=key, problem=problem),
    )


def _reached(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the address of the dashboard and its links, as fields of Config."""
    return {
        "host": server["host"],
        "port": server["port"],
        "perfetto_url": server["perfetto"],
        "public_url": (server["url"] or "").rstrip("/"),
        "link_secret": server["link_secret"],
        "link_days": server["link_days"],
    }


def _measure_settings(run: Mapping[str, Any]) -> MeasureSettings:
    return MeasureSettings(
        num_launches=run["launches"],
        max_launches=run["max_launches"],
        target_interval=run["target_interval"],
        num_rounds=run["rounds"],
        budget_s=run["budget_s"],
        num_threads=run["threads"],
        timeout_s=run["timeout_s"],
        memory_limit_bytes=run["memory_limit"],
        memory_snapshot=run["memory_snapshot"],
        compile_trace=run["compile_trace"],
        kernels=run["kernels"],
        sweep=run["sweep"],
    )


def default_store_url(state_dir: Path) -> str:
    """Return the URL of the store in `state_dir`."""
    return f"duckdb:///{state_dir / 'store.duckdb'}"


def demo_store_url(state_dir: Path) -> str:
    """Return the URL of the separate store for synthetic history in `state_dir`."""
    return f"duckdb:///{state_dir / 'demo.duckdb'}"


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


def _parse_toml(content: str, *, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
        if match is None:
            raise ConfigError(
                f"{name}: not valid TOML: {error}", name=name, problem="toml"
            ) from error
        raise ConfigError(
            f"{name} line {match[2]}, column {match[3]}: not valid TOML: {match[1]}",
            name=name,
            problem="toml",
            line=int(match[2]),
        ) from error


def _check_sections(source: _SettingsText) -> None:
    known = list(dict.fromkeys(row.section.partition(".")[0] for row in SETTINGS))
    for section, value in source.tables.items():
        if section not in known:
            source.fail(section, problem=f"unknown section{did_you_mean(section, known)}")
        if not isinstance(value, dict):
            source.fail(section, problem=f"must be a section, write [{section}] on its own line")


def _values(source: _SettingsText, section: str, table: Any, *, rows: str = "") -> dict[str, Any]:
    known = section_rows(rows or section)
    if not isinstance(table, dict):
        source.fail(section, problem=f"must be a section, write [{section}] on its own line")
    for key in table:
        if key not in known and ANY_KEY not in known:
            source.fail(section, key=key, problem=f"unknown key{did_you_mean(key, known)}")
    values = {row.key: _value(source, section, row, table) for row in known.values()}
    _check_launches(source, section, table, values=values)
    return values


def _check_launches(
    source: _SettingsText, section: str, table: Mapping[str, Any], *, values: Mapping[str, Any]
) -> None:
    # A default of `launches` yields to an explicit `max_launches`.
    if "max_launches" in table and "launches" in table:
        least, most = values["launches"], values["max_launches"]
        if most < least:
            problem = f"got {most}, fewer than launches = {least}; takes {least} or more"
            source.fail(section, key="max_launches", problem=problem)


def _value(source: _SettingsText, section: str, row: Setting, table: Mapping[str, Any]) -> Any:
    if row.key not in table:
        if row.is_required:
            source.fail(section, problem=f"{row.key} is missing. {row.description}")
        return row.default
    try:
        return row.accept(table[row.key])
    except SecretRefused as error:
        source.fail(section, key=row.key, problem=f"takes {error}")
    except ValueError as error:
        source.fail(section, key=row.key, problem=f"got {table[row.key]!r}, takes {error}")


def _named_sections(source: _SettingsText, kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: _values(source, f"{kind}.{name}", table, rows=f"{kind}.NAME")
        for name, table in source.tables.get(kind, {}).items()
    }


def _suites(source: _SettingsText) -> dict[str, Suite]:
    return {
        name: Suite(
            name=name,
            summary=f"From {source.name}.",
            selection=Selection(
                models=values["models"],
                tags=values["tags"] or (),
                exclude=values["exclude"] or (),
                modes=values["modes"] or MODES,
                phases=values["phases"],
                dtypes=values["dtypes"],
                shapes=values["shape"],
            ),
            time_budget_s=values["time_budget"],
            num_launches=values["launches"],
            max_launches=values["max_launches"],
            target_interval=values["target_interval"],
            num_rounds=values["rounds"],
            budget_s=values["budget_s"],
            sweep=values["sweep"],
        )
        for name, values in _named_sections(source, "suites").items()
    }


def _toolchains(source: _SettingsText, base: Path, *, built: Mapping[str, Path]) -> dict[str, Path]:
    row = section_rows("toolchains")[ANY_KEY]
    toolchains = {CURRENT_TOOLCHAIN: Path(sys.executable), **built}
    for name, value in source.tables.get("toolchains", {}).items():
        try:
            python = row.accept(value)
        except ValueError:
            source.fail("toolchains", key=name, problem="takes the path of a Python interpreter")
        # A bare name is looked up in PATH, as a shell does.
        toolchains[name] = base / python if "/" in python else Path(python)
        if name in built and toolchains[name].absolute() != built[name].absolute():
            logger.warning(
                "toolchain %s of %s hides the one that `hud toolchain add` built", name, source.name
            )
    return toolchains


def _schedules(
    source: _SettingsText,
    *,
    suites: Iterable[str],
    toolchains: Mapping[str, Path],
    built: Mapping[str, Path],
) -> dict[str, Schedule]:
    schedules = {}
    ours = {name for name, python in built.items() if toolchains[name] == python}
    for name, values in _named_sections(source, "schedules").items():
        for key, known in (("suite", suites), ("toolchain", toolchains)):
            if values[key] not in known:
                source.fail(
                    f"schedules.{name}",
                    key=key,
                    problem=f"no {key} {values[key]!r}{did_you_mean(values[key], known)}",
                )
        try:
            schedules[name] = make_schedule(name, values, built=ours)
        except ScheduleError as error:
            source.fail(f"schedules.{name}", key=error.key, problem=str(error))
    return schedules


def _receivers(source: _SettingsText, base: Path) -> dict[str, ReceiverSettings]:
    receivers = {}
    for name, values in _named_sections(source, "receivers").items():
        receivers[name] = ReceiverSettings(name=name, base=base, **values)
        try:
            check_receiver(receivers[name])
        except WrongReceiver as error:
            source.fail(f"receivers.{name}", key=error.key, problem=str(error))
    return receivers


def _routes(source: _SettingsText) -> tuple[Route, ...]:
    known = source.tables.get("receivers", {})
    routes = []
    for name, values in _named_sections(source, "routes").items():
        for receiver in values["receivers"]:
            if receiver not in known:
                problem = f"no receiver {receiver!r}{did_you_mean(receiver, known)}"
                source.fail(f"routes.{name}", key="receivers", problem=problem)
        for key, names in ROUTE_NAMES.items():
            for glob in values[key]:
                if not any(fnmatchcase(item, glob) for item in names):
                    # Of two names the similar one may be the wrong one: `gpu` is like `cpu`.
                    near = did_you_mean(glob if len(names) > 2 else "", names)
                    problem = f"no {key.removesuffix('s')} {glob!r}{near}"
                    source.fail(f"routes.{name}", key=key, problem=problem)
        routes.append(make_route(name, values))
    return tuple(routes)


def _models(source: _SettingsText, base: Path) -> dict[str, ModelSpec]:
    models = {}
    for name, values in _named_sections(source, "models").items():
        try:
            models[name] = own_model(name, values, folder=base, source_name=source.name)
        except OwnModelError as error:
            source.fail(f"models.{name}", key=error.key, problem=str(error))
    return models


def _variants(source: _SettingsText) -> dict[str, Variant]:
    """Return the built-in variants, and those of the file, each based on one before it."""
    variants = dict(VARIANTS)
    sections = _named_sections(source, "variants")
    for name, values in sections.items():
        try:
            variants[name] = own_variant(
                name, values, known=variants, source_name=source.name, later=sections
            )
        except OwnVariantError as error:
            source.fail(f"variants.{name}", key=error.key, problem=str(error))
    return variants


def _with_shapes(
    source: _SettingsText, catalog: Mapping[str, ModelSpec]
) -> Mapping[str, ModelSpec]:
    for name, values in _named_sections(source, "shapes").items():
        sizes = {axis.key: values[axis.key] for axis in AXES if values[axis.key] is not None}
        lists = {key for key, value in sizes.items() if isinstance(value, tuple)}
        rule = ShapeRule(
            name=name,
            size=values["size"],
            models=values["models"],
            is_tracked=values["nightly"],
            axes={key: value if key in lists else (value,) for key, value in sizes.items()},
            lists=frozenset(lists),
        )
        try:
            catalog = with_shapes(catalog, rule)
        except NamedShapeError as error:
            source.fail(f"shapes.{name}", key=error.key, problem=str(error))
    return catalog


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with similar names, or the list of all if none is similar."""
    names = list(known)
    near = near_names(name, names)
    return f"; did you mean {near}?" if near else f"; there is {', '.join(names)}"
