"""The sections of hud.toml, and the table of all settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Self, get_args

from pydantic import Field, model_validator

from compile_hud.db.shared.trace_paths import PERFETTO_URL
from compile_hud.runner.config.named_shapes import ShapeSection
from compile_hud.runner.config.notifications import ReceiverSection, RouteSection, SecretSource
from compile_hud.runner.config.own_variants import VariantSection
from compile_hud.runner.config.schedules import ScheduleSection
from compile_hud.runner.config.section import (
    ConfigSection,
    SectionError,
    Setting,
    Unit,
    Variable,
    settings_of,
)
from compile_hud.runner.config.sign_in import AuthSection
from compile_hud.runner.config.user_models import ModelSection
from compile_hud.runner.config.value_types import (
    Count,
    CountOrZero,
    Dtypes,
    Duration,
    Flag,
    Interpreter,
    Multiple,
    Phases,
    Port,
    Seconds,
    Share,
    SizeBytes,
    Text,
    Texts,
    Waiting,
    WebAddress,
    one_of,
)
from compile_hud.runner.notifications.receivers.settings import ENV, FILE
from compile_hud.runner.persistence.trace_retention import TraceRules
from compile_hud.runner.protocol.messages import MeasureSettings, TracePolicy

_MEASURE = MeasureSettings()
_TRACES = TraceRules()
_AS_IN_RUN = "As in [run], for this suite alone."
# A section whose keys are names of the user's own choice.
ANY_KEY = "*"
# The state directory below the folder of the settings.
DEFAULT_STATE = ".hud"

Days = Annotated[Count, Unit("day")]
Nights = Annotated[Count, Unit("night")]
Launches = Annotated[Count, Unit("launch")]
Rounds = Annotated[Count, Unit("sample")]


class StoreSection(ConfigSection):
    url: Annotated[Text | None, Variable("HUD_DATABASE_URL")] = Field(
        None,
        description="Where results are stored, as an SQLAlchemy URL. HUD_DATABASE_URL wins."
        " Default: `store.duckdb` in the state directory.",
    )


class PathsSection(ConfigSection):
    state: Annotated[Text, Variable("HUD_STATE_DIR")] = Field(
        DEFAULT_STATE,
        description="Directory of the spool, logs and compile caches. HUD_STATE_DIR wins.",
    )


class TracesSection(ConfigSection):
    folder: Text | None = Field(
        None,
        description="Where the traces of results are kept. Default: next to a DuckDB store, in the"
        " folder of its name with `.traces` behind; with PostgreSQL none are kept unless this"
        " names a folder that every runner and dashboard shares.",
    )
    nights: Nights = Field(
        _TRACES.num_nights,
        description="Traces of so many nights are kept"
        " ([which](../explanation/kernels.md#stored-and-kept)).",
    )
    max_size: SizeBytes = Field(
        _TRACES.max_bytes,
        description='Bytes that all traces may take, or a text such as "2 GB"; the oldest go.',
    )


class OutboxSection(ConfigSection):
    days: Days = Field(
        90,
        description="Days after which the words of notifications that were sent are forgotten, and"
        " of which alerts they reported, unless one is still open or acknowledged.",
    )


class SamplesSection(ConfigSection):
    nights: Nights | None = Field(
        None,
        description="Samples of so many nights are kept"
        " ([which](../how-to/deployment.md#what-is-kept));"
        " medians and intervals are for ever. Default: all samples.",
    )


class MachineSection(ConfigSection):
    name: Text | None = Field(
        None, description="Name of this machine in results and charts. Default: the host name."
    )


class AlertsSection(ConfigSection):
    bisect: Flag = Field(
        False,
        description="Whether each confirmed regression queues a search for the revision behind it"
        " ([how](../how-to/bisect.md#alerts)).",
    )
    bisect_minutes: Annotated[Count, Unit("minute")] = Field(
        60, description="Minutes that the launches of one such search may take."
    )


class _LaunchesSection(ConfigSection):
    """A section with numbers of launches."""

    @model_validator(mode="after")
    def _check_launches(self) -> Self:
        # A default of `launches` yields to an explicit `max_launches`.
        if {"launches", "max_launches"} <= self.model_fields_set:
            least, most = (dict(self)[key] for key in ("launches", "max_launches"))
            if most < least:
                problem = f"got {most}, fewer than launches = {least}; takes {least} or more"
                raise SectionError(problem, key="max_launches")
        return self


class RunSection(_LaunchesSection):
    launches: Launches = Field(
        _MEASURE.num_launches,
        description="Fresh processes a case gets at least; the first compiles cold, the others"
        " warm.",
    )
    max_launches: Launches = Field(
        _MEASURE.max_launches,
        description="Fresh processes a case gets at most, when its launches disagree.",
    )
    target_interval: Share = Field(
        _MEASURE.target_interval,
        description="How far the 95 % interval over launches may reach to either side of the"
        " speedup (eager cases: of the latency), as a share of it. Until then more launches"
        " follow, up to max_launches, and a launch whose own samples agree twice as closely stops"
        " early. 0: fixed numbers of launches and rounds.",
    )
    rounds: Rounds = Field(
        _MEASURE.num_rounds, description="Samples that one launch takes at most."
    )
    budget_s: Seconds = Field(
        _MEASURE.budget_s, description="Wall seconds that the sampling of one launch may take."
    )
    threads: Annotated[Count, Unit("thread")] = Field(
        _MEASURE.num_threads,
        description="Threads that torch computes with; one gives the steadiest numbers on a CPU.",
    )
    timeout_s: Seconds = Field(
        _MEASURE.timeout_s,
        description="Wall seconds after which a case is killed; its outcome is then `timeout`.",
    )
    memory_limit: SizeBytes | None = Field(
        None,
        description='Memory one case may take, such as "8 GB". On a CPU 80 % of all by default.',
    )
    memory_snapshot: Flag = Field(
        _MEASURE.memory_snapshot,
        description="Keep the history of CUDA's allocator over one iteration of each case, in"
        " `snapshots` of the state directory, for pytorch.org/memory_viz.",
    )
    compile_trace: Annotated[str, one_of(map(str, TracePolicy))] = Field(
        _MEASURE.compile_trace,
        description="Cases whose log of TORCH_TRACE is stored: `never`, `failed`, `changed` or"
        " `always`. A chosen case compiles once more"
        " ([how](../explanation/measurement.md#logs-of-the-compiler)).",
    )
    kernels: Flag = Field(
        _MEASURE.kernels,
        description="Record which kernels run, and their trace, in some iterations after the"
        " samples of each case.",
    )
    sweep: Flag = Field(
        _MEASURE.sweep,
        description="Call what `default` and `dynamic` compiled with other shapes as well, at the"
        " end of the first launch ([how](../explanation/measurement.md#other-shapes)).",
    )
    reference_cases: Flag = Field(
        True,
        description="Whether each run starts with the reference cases, which tell a machine that"
        " moved from code that moved.",
    )
    wait_idle: Waiting = Field(
        600.0,
        description="How long a run waits for a GPU that another process computes on, such as"
        ' "1 h"; then it measures all the same, and its results name that process. 0: not at all.',
    )
    compile_ahead: Annotated[CountOrZero | None, Unit("process")] = Field(
        None,
        description="How many cases compile at a time, each on its own share of the cores, before"
        " they sample one by one; 0: each compiles alone"
        " ([how](../explanation/measurement.md#compile-ahead))."
        " Default: a quarter of the cores on a GPU machine, 0 on a CPU.",
    )
    confirm: Flag = Field(
        True,
        description="Whether suspected regressions of a run are measured again before they are"
        " reported ([how](../explanation/alerts.md#confirmation)).",
    )
    confirm_share: Multiple = Field(
        0.2,
        description="Time that measuring again may take, as a share of the run's own: 0.2 is 20 %,"
        " 2 is twice as long.",
    )


class SuiteSection(_LaunchesSection):
    models: Texts = Field(("*",), description="Globs of model names.")
    tags: Texts = Field(
        (), description="Globs of [tags](#tags): of these models only those that have one."
    )
    exclude: Texts = Field((), description="Globs of model names that are left out.")
    modes: Texts | None = Field(
        None, description="Modes or variants, globs allowed. Default: the five modes."
    )
    phases: Phases = Field(("inference",), description="`inference`, `training` or both.")
    dtypes: Dtypes = Field(
        ("fp32",), description="`fp32`, `tf32`, `bf16`, `bf16-autocast`, `fp16`, `fp16-autocast`."
    )
    shape: Texts = Field(
        ("auto",),
        description="Globs of [shapes](#shapes): `tiny`, `small`, `full`, or `auto`: full on a GPU,"
        " small on a CPU.",
    )
    time_budget: Duration | None = Field(
        None,
        description='Time in which a run of the suite [starts cases](#time-budget), such as "2 h".'
        " Default: as long as it takes.",
    )
    launches: Launches | None = Field(None, description=_AS_IN_RUN)
    max_launches: Launches | None = Field(None, description=_AS_IN_RUN)
    target_interval: Share | None = Field(None, description=_AS_IN_RUN)
    rounds: Rounds | None = Field(None, description=_AS_IN_RUN)
    budget_s: Seconds | None = Field(None, description=_AS_IN_RUN)
    sweep: Flag | None = Field(None, description=_AS_IN_RUN)


class ServerSection(ConfigSection):
    host: Text = Field("127.0.0.1", description="Address that the dashboard listens on.")
    port: Port = Field(8501, description="Port that the dashboard listens on; 0 takes a free one.")
    perfetto: WebAddress = Field(
        PERFETTO_URL,
        description="Address of the Perfetto UI that traces are handed to: one that you host, where"
        " browsers cannot reach this one.",
    )
    url: WebAddress | None = Field(
        None,
        description="Where people reach the dashboard. Messages link there; without it they carry"
        " no links to decide by, and no addresses of pictures. The dashboard answers to its name.",
    )
    link_secret: SecretSource | None = Field(
        None,
        description=f"Where the secret that signs links is kept: `{ENV}NAME` or `{FILE}PATH`, the"
        " same for every runner and dashboard. Default: a file in the state directory.",
    )
    link_days: Days = Field(14, description="Days for which the links of a message hold.")
    without_sign_in: Flag = Field(
        False,
        description="Whether the dashboard may listen on addresses that other machines reach"
        " without an `[auth] issuer`.",
    )


class HudToml(ConfigSection):
    """All sections of hud.toml."""

    store: StoreSection = StoreSection.model_construct()
    paths: PathsSection = PathsSection.model_construct()
    traces: TracesSection = TracesSection.model_construct()
    outbox: OutboxSection = OutboxSection.model_construct()
    samples: SamplesSection = SamplesSection.model_construct()
    machine: MachineSection = MachineSection.model_construct()
    run: RunSection = RunSection.model_construct()
    alerts: AlertsSection = AlertsSection.model_construct()
    toolchains: dict[str, Interpreter] = Field(
        {},
        description="A name and the Python interpreter with the torch to measure."
        " `current` is the interpreter that runs `hud`.",
    )
    suites: dict[str, SuiteSection] = {}
    shapes: dict[str, ShapeSection] = {}
    schedules: dict[str, ScheduleSection] = {}
    models: dict[str, ModelSection] = {}
    variants: dict[str, VariantSection] = {}
    server: ServerSection = ServerSection.model_construct()
    auth: AuthSection = AuthSection.model_construct()
    receivers: dict[str, ReceiverSection] = {}
    routes: dict[str, RouteSection] = {}


def _settings() -> Iterator[Setting]:
    for section, field in HudToml.model_fields.items():
        *name, model = get_args(field.annotation) or (field.annotation,)
        if field.description:
            yield Setting(section=section, key=ANY_KEY, description=field.description)
        else:
            yield from settings_of(f"{section}.NAME" if name else section, model)


SETTINGS = tuple(_settings())


def section_rows(section: str) -> Mapping[str, Setting]:
    """Return the settings of `section`, such as `run` or `suites.mine`, by key."""
    names = (section, f"{section.partition('.')[0]}.NAME")
    return {row.key: row for row in SETTINGS if row.section in names}
