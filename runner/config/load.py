"""Read and check hud.toml; errors name the line."""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from compile_hud.db.shared.trace_paths import traces_folder
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.spec import ModelSpec, Variant
from compile_hud.models_zoo.catalog.variants import MODES, VARIANTS
from compile_hud.runner.config.named_shapes import with_shapes
from compile_hud.runner.config.notifications import check_receiver, make_route
from compile_hud.runner.config.own_variants import own_variant
from compile_hud.runner.config.postgres_password import with_password
from compile_hud.runner.config.schedules import Schedule, make_schedule
from compile_hud.runner.config.schema import HudToml, RunSection, SuiteSection
from compile_hud.runner.config.section import check_name
from compile_hud.runner.config.settings_file import CONFIG_NAME, SettingsFile
from compile_hud.runner.config.sign_in import SignIn, make_sign_in
from compile_hud.runner.config.user_models import installed_models, own_model
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.notifications.receivers.settings import ReceiverSettings
from compile_hud.runner.notifications.routes import Route
from compile_hud.runner.persistence.trace_retention import TraceRules
from compile_hud.runner.planning.suites import BUILTIN_SUITES, Selection, Suite
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.system.dashboard_urls import dashboard_url
from compile_hud.runner.toolchains.registry import built_toolchains

logger = logging.getLogger(__name__)

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
    bisects_alerts: bool
    bisect_s: float
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


def load_config(path: Path | None, *, env: Mapping[str, str]) -> Config:
    """Return the settings of `path`, of HUD_CONFIG or of ./hud.toml, or the defaults.

    Raises ConfigError when a file that was named does not exist or when anything in it is wrong.
    """
    named = path or (Path(env["HUD_CONFIG"]) if env.get("HUD_CONFIG") else None)
    chosen = named or Path(CONFIG_NAME)
    # A link to a file that is missing is a mistake, not the lack of a file.
    is_read = named is not None or os.path.lexists(chosen)
    try:
        content = _read(chosen) if is_read else ""
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot read the settings in {chosen}: {_unreadable(error, chosen)}"
        raise ConfigError(problem, path=chosen) from error
    return parse_config(
        content,
        path=chosen if is_read else None,
        env=env,
        built=built_toolchains,
        installed=installed_models,
    )


def _read(path: Path) -> str:
    # Reading a pipe in a folder would wait for a writer; /dev has those of a shell's `<(...)`.
    if stat.S_ISFIFO(path.stat().st_mode) and not path.is_relative_to("/dev"):
        raise OSError(errno.ESPIPE, "it is a pipe. Name a regular file with --config")
    return path.read_text(encoding="utf-8")


def _unreadable(error: OSError | UnicodeDecodeError, path: Path) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8. Save the file as UTF-8"
    if error.errno == errno.ESPIPE:
        return str(error.strerror)
    if path.is_symlink() and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return (
            f"it is a link to {path.readlink()}, where no file is. Remove the link, or let it point"
            " to a file"
        )
    if isinstance(error, FileNotFoundError):
        return (
            "there is no such file. Name one that is there with --config or HUD_CONFIG, or none to"
            " go without"
        )
    if isinstance(error, IsADirectoryError):
        return "it is a folder. Name the file in it"
    return f"{error.strerror}. Who runs hud must be able to read the file"


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
    source = SettingsFile(name=CONFIG_NAME if path is None else str(path), text=content)
    sections = source.parse()
    run, traces, server = sections.run, sections.traces, sections.server
    base = Path() if path is None else path.parent
    state_dir = Path(env.get("HUD_STATE_DIR") or base / sections.paths.state)
    url = env.get("HUD_DATABASE_URL") or sections.store.url or default_store_url(state_dir)
    suites = {**BUILTIN_SUITES, **_suites(sections.suites, source_name=source.name)}
    own_toolchains = built(state_dir)
    toolchains = _toolchains(sections.toolchains, base, built=own_toolchains, source=source)
    with source.section("auth"):
        sign_in = make_sign_in(sections.auth, is_open=server.without_sign_in, base=base)
    return Config(
        path=path,
        store_url=with_password(url, env=env),
        state_dir=state_dir,
        machine=sections.machine.name or socket.gethostname(),
        measure=_measure_settings(run),
        has_references=run.reference_cases,
        has_confirmation=run.confirm,
        wait_idle_s=run.wait_idle,
        compile_ahead=run.compile_ahead,
        confirm_share=run.confirm_share,
        bisects_alerts=sections.alerts.bisect,
        bisect_s=60.0 * sections.alerts.bisect_minutes,
        toolchains=toolchains,
        suites=suites,
        schedules=_schedules(
            source, sections, suites=suites, toolchains=toolchains, built=own_toolchains
        ),
        catalog=_catalog(source, sections, base, others={**CATALOG, **installed()}),
        variants=_variants(source, sections),
        traces_folder=None if traces.folder is None else base / traces.folder,
        trace_rules=TraceRules(num_nights=traces.nights, max_bytes=traces.max_size),
        sample_nights=sections.samples.nights,
        outbox_days=sections.outbox.days,
        sign_in=sign_in,
        host=server.host,
        port=server.port,
        perfetto_url=server.perfetto,
        public_url=(server.url or "").rstrip("/"),
        link_secret=server.link_secret,
        link_days=server.link_days,
        receivers=_receivers(source, sections, base),
        routes=_routes(source, sections),
    )


def _measure_settings(run: RunSection) -> MeasureSettings:
    return MeasureSettings(
        num_launches=run.launches,
        max_launches=run.max_launches,
        target_interval=run.target_interval,
        num_rounds=run.rounds,
        budget_s=run.budget_s,
        num_threads=run.threads,
        timeout_s=run.timeout_s,
        memory_limit_bytes=run.memory_limit,
        memory_snapshot=run.memory_snapshot,
        compile_trace=run.compile_trace,
        kernels=run.kernels,
        sweep=run.sweep,
    )


def default_store_url(state_dir: Path) -> str:
    """Return the URL of the store in `state_dir`."""
    return f"duckdb:///{state_dir / 'store.duckdb'}"


def demo_store_url(state_dir: Path) -> str:
    """Return the URL of the separate store for synthetic history in `state_dir`."""
    return f"duckdb:///{state_dir / 'demo.duckdb'}"


def _suites(sections: Mapping[str, SuiteSection], *, source_name: str) -> dict[str, Suite]:
    return {
        name: Suite(
            name=name,
            summary=f"From {source_name}.",
            selection=Selection(
                models=section.models,
                tags=section.tags,
                exclude=section.exclude,
                modes=section.modes or MODES,
                phases=section.phases,
                dtypes=section.dtypes,
                shapes=section.shape,
            ),
            time_budget_s=section.time_budget,
            num_launches=section.launches,
            max_launches=section.max_launches,
            target_interval=section.target_interval,
            num_rounds=section.rounds,
            budget_s=section.budget_s,
            sweep=section.sweep,
        )
        for name, section in sections.items()
    }


def _toolchains(
    interpreters: Mapping[str, str],
    base: Path,
    *,
    built: Mapping[str, Path],
    source: SettingsFile,
) -> dict[str, Path]:
    toolchains = {CURRENT_TOOLCHAIN: Path(sys.executable), **built}
    for name, python in interpreters.items():
        # A bare name is looked up in PATH, as a shell does.
        toolchains[name] = base / python if "/" in python else Path(python)
        if name in built and toolchains[name].absolute() != built[name].absolute():
            logger.warning(
                "toolchain %s of %s hides the one that `hud toolchain add` built", name, source.name
            )
    return toolchains


def _schedules(
    source: SettingsFile,
    sections: HudToml,
    *,
    suites: Iterable[str],
    toolchains: Mapping[str, Path],
    built: Mapping[str, Path],
) -> dict[str, Schedule]:
    schedules = {}
    ours = {name for name, python in built.items() if toolchains[name] == python}
    for name, section in sections.schedules.items():
        with source.section(f"schedules.{name}"):
            check_name("suite", section.suite, suites)
            check_name("toolchain", section.toolchain, toolchains)
            schedules[name] = make_schedule(name, section, built=ours)
    return schedules


def _receivers(source: SettingsFile, sections: HudToml, base: Path) -> dict[str, ReceiverSettings]:
    receivers = {}
    for name, section in sections.receivers.items():
        with source.section(f"receivers.{name}"):
            receivers[name] = ReceiverSettings(name=name, base=base, **dict(section))
            check_receiver(receivers[name])
    return receivers


def _routes(source: SettingsFile, sections: HudToml) -> tuple[Route, ...]:
    routes = []
    for name, section in sections.routes.items():
        with source.section(f"routes.{name}"):
            routes.append(make_route(name, section, receivers=sections.receivers))
    return tuple(routes)


def _catalog(
    source: SettingsFile, sections: HudToml, base: Path, *, others: Mapping[str, ModelSpec]
) -> dict[str, ModelSpec]:
    """Return the `others` and the models of the file, with the shapes that the file names."""
    catalog = dict(others)
    for name, model in sections.models.items():
        with source.section(f"models.{name}"):
            catalog[name] = own_model(name, model, folder=base, source_name=source.name)
    for name, shape in sections.shapes.items():
        with source.section(f"shapes.{name}"):
            catalog = with_shapes(catalog, name, shape)
    return catalog


def _variants(source: SettingsFile, sections: HudToml) -> dict[str, Variant]:
    """Return the built-in variants, and those of the file, each based on one before it."""
    variants = dict(VARIANTS)
    for name, section in sections.variants.items():
        with source.section(f"variants.{name}"):
            variants[name] = own_variant(
                name, section, known=variants, source_name=source.name, later=sections.variants
            )
    return variants
