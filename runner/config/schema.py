"""Every setting of hud.toml, one row each: name, default, meaning and accepted values.

A section that ends in `.NAME` may occur any number of times, once for each name.
"""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.db.shared.trace_paths import PERFETTO_URL
from compile_hud.models_zoo.catalog.shapes import AXES
from compile_hud.runner.config.notifications import NOTIFICATION_SETTINGS, secret_source
from compile_hud.runner.config.own_variants import VARIANT_SETTINGS
from compile_hud.runner.config.schedules import SCHEDULE_SETTINGS
from compile_hud.runner.config.setting import Setting
from compile_hud.runner.config.sign_in import SIGN_IN_SETTINGS
from compile_hud.runner.config.validators import (
    count,
    count_or_zero,
    counts,
    dtypes,
    duration,
    flag,
    multiple,
    phases,
    port,
    seconds,
    share,
    size_bytes,
    sizes,
    text,
    texts,
    tolerances,
    trace_policy,
    waiting,
    web_address,
)
from compile_hud.runner.notifications.receivers.settings import ENV, FILE
from compile_hud.runner.persistence.trace_retention import TraceRules
from compile_hud.runner.protocol.messages import MeasureSettings

_MEASURE = MeasureSettings()
_TRACES = TraceRules()


# A table of names of the user's own choice: any key is allowed.
ANY_KEY = "*"

SETTINGS = (
    Setting(
        section="store",
        key="url",
        accept=text,
        variable="HUD_DATABASE_URL",
        description="Where results are stored, as an SQLAlchemy URL. HUD_DATABASE_URL wins."
        " Default: `store.duckdb` in the state directory.",
    ),
    Setting(
        section="paths",
        key="state",
        accept=text,
        default=".hud",
        variable="HUD_STATE_DIR",
        description="Directory of the spool, logs and compile caches. HUD_STATE_DIR wins.",
    ),
    Setting(
        section="traces",
        key="folder",
        accept=text,
        description="Where the traces of results are kept. Default: beside a DuckDB store, in the"
        " folder of its name with `.traces` behind; beside PostgreSQL none are kept unless this"
        " names a folder that every runner and dashboard shares.",
    ),
    Setting(
        section="traces",
        key="nights",
        accept=count,
        unit="night",
        default=_TRACES.num_nights,
        description="Traces of so many nights are kept ([which](kernels.md#stored-and-kept)).",
    ),
    Setting(
        section="traces",
        key="max_size",
        accept=size_bytes,
        default=_TRACES.max_bytes,
        description='Bytes that all traces may take, or a text such as "2 GB"; the oldest go.',
    ),
    Setting(
        section="outbox",
        key="days",
        accept=count,
        unit="day",
        default=90,
        description="Days after which the words of notifications that were sent are forgotten, and"
        " of which alerts they told, unless one is still open or acknowledged.",
    ),
    Setting(
        section="samples",
        key="nights",
        accept=count,
        unit="night",
        description="Samples of so many nights are kept ([which](deployment.md#what-is-kept));"
        " medians and intervals are for ever. Default: all samples.",
    ),
    Setting(
        section="machine",
        key="name",
        accept=text,
        description="Name of this machine in results and charts. Default: the host name.",
    ),
    Setting(
        section="run",
        key="launches",
        accept=count,
        unit="launch",
        default=_MEASURE.num_launches,
        description="Fresh processes a case gets at least; the first compiles cold, the others"
        " warm.",
    ),
    Setting(
        section="run",
        key="max_launches",
        accept=count,
        unit="launch",
        default=_MEASURE.max_launches,
        description="Fresh processes a case gets at most, when its launches disagree.",
    ),
    Setting(
        section="run",
        key="target_interval",
        accept=share,
        default=_MEASURE.target_interval,
        description="How far the 95 % interval over launches may reach to either side of the"
        " speedup (eager cases: of the latency), as a share of it. Until then more launches"
        " follow, up to max_launches, and a launch whose own samples agree twice as closely stops"
        " early. 0: fixed numbers of launches and rounds.",
    ),
    Setting(
        section="run",
        key="rounds",
        accept=count,
        unit="sample",
        default=_MEASURE.num_rounds,
        description="Samples that one launch takes at most.",
    ),
    Setting(
        section="run",
        key="budget_s",
        accept=seconds,
        default=_MEASURE.budget_s,
        description="Wall seconds that the sampling of one launch may take.",
    ),
    Setting(
        section="run",
        key="threads",
        accept=count,
        unit="thread",
        default=_MEASURE.num_threads,
        description="Threads that torch computes with; one gives the steadiest numbers on a CPU.",
    ),
    Setting(
        section="run",
        key="timeout_s",
        accept=seconds,
        default=_MEASURE.timeout_s,
        description="Wall seconds after which a case is killed; its outcome is then `timeout`.",
    ),
    Setting(
        section="run",
        key="memory_limit",
        accept=size_bytes,
        description='Memory one case may take, such as "8 GB". On a CPU 80 % of all by default.',
    ),
    Setting(
        section="run",
        key="memory_snapshot",
        accept=flag,
        default=_MEASURE.memory_snapshot,
        description="Keep the history of CUDA's allocator over one iteration of each case, in"
        " `snapshots` of the state directory, for pytorch.org/memory_viz.",
    ),
    Setting(
        section="run",
        key="compile_trace",
        accept=trace_policy,
        default=_MEASURE.compile_trace,
        description="Cases whose log of TORCH_TRACE is stored: `never`, `failed`, `changed` or"
        " `always`. A chosen case compiles once more"
        " ([how](methodology.md#logs-of-the-compiler)).",
    ),
    Setting(
        section="run",
        key="kernels",
        accept=flag,
        default=_MEASURE.kernels,
        description="Record which kernels run, and their trace, in some iterations after the"
        " samples of each case.",
    ),
    Setting(
        section="run",
        key="sweep",
        accept=flag,
        default=_MEASURE.sweep,
        description="Call what `default` and `dynamic` compiled with other shapes as well, at the"
        " end of the first launch ([how](methodology.md#other-shapes)).",
    ),
    Setting(
        section="run",
        key="reference_cases",
        accept=flag,
        default=True,
        description="Whether each run starts with the reference cases, which tell a machine that"
        " moved from code that moved.",
    ),
    Setting(
        section="run",
        key="wait_idle",
        accept=waiting,
        default=600.0,
        description="How long a run waits for a GPU that another process computes on, such as"
        ' "1 h"; then it measures all the same, and its results say beside whom. 0: not at all.',
    ),
    Setting(
        section="run",
        key="compile_ahead",
        accept=count_or_zero,
        unit="process",
        description="How many cases compile at a time, each on its own share of the cores, before"
        " they sample one by one ([how](methodology.md#compile-ahead)); 0: each compiles alone."
        " Default: a quarter of the cores on a GPU machine, 0 on a CPU.",
    ),
    Setting(
        section="run",
        key="confirm",
        accept=flag,
        default=True,
        description="Whether suspected regressions of a run are measured again before anyone is"
        " told ([how](judging.md#confirmation)).",
    ),
    Setting(
        section="run",
        key="confirm_share",
        accept=multiple,
        default=0.2,
        description="Time that measuring again may take, as a share of the run's own: 0.2 is 20 %,"
        " 2 is twice as long.",
    ),
    Setting(
        section="toolchains",
        key=ANY_KEY,
        accept=text,
        description="A name and the Python interpreter with the torch to measure."
        " `current` is the interpreter that runs `hud`.",
    ),
    Setting(
        section="suites.NAME",
        key="models",
        accept=texts,
        default=("*",),
        description="Globs of model names.",
    ),
    Setting(
        section="suites.NAME",
        key="tags",
        accept=texts,
        description="Globs of [tags](#tags): of these models only those that have one.",
    ),
    Setting(
        section="suites.NAME",
        key="exclude",
        accept=texts,
        description="Globs of model names that are left out.",
    ),
    Setting(
        section="suites.NAME",
        key="modes",
        accept=texts,
        description="Modes or variants, globs allowed. Default: the five modes.",
    ),
    Setting(
        section="suites.NAME",
        key="phases",
        accept=phases,
        default=("inference",),
        description="`inference`, `training` or both.",
    ),
    Setting(
        section="suites.NAME",
        key="dtypes",
        accept=dtypes,
        default=("fp32",),
        description="`fp32`, `tf32`, `bf16`, `bf16-autocast`, `fp16`, `fp16-autocast`.",
    ),
    Setting(
        section="suites.NAME",
        key="shape",
        accept=texts,
        default=("auto",),
        description="Globs of [shapes](#shapes): `tiny`, `small`, `full`, or `auto`: full on a GPU,"
        " small on a CPU.",
    ),
    Setting(
        section="suites.NAME",
        key="time_budget",
        accept=duration,
        description='Time in which a run of the suite [starts cases](#time-budget), such as "2 h".'
        " Default: as long as it takes.",
    ),
    *(
        Setting(
            section="suites.NAME",
            key=key,
            accept=accept,
            unit=unit,
            description="As in [run], for this suite alone.",
        )
        for key, accept, unit in (
            ("launches", count, "launch"),
            ("max_launches", count, "launch"),
            ("target_interval", share, ""),
            ("rounds", count, "sample"),
            ("budget_s", seconds, ""),
            ("sweep", flag, ""),
        )
    ),
    Setting(
        section="shapes.NAME",
        key="size",
        accept=text,
        is_required=True,
        description="Size that the [shape](#shapes) is made of: `tiny`, `small`, `full`.",
    ),
    Setting(
        section="shapes.NAME",
        key="models",
        accept=texts,
        default=("*",),
        description="Globs of the models that have it, as far as they have its axes.",
    ),
    *(
        Setting(
            section="shapes.NAME",
            key=axis.key,
            accept=counts,
            unit=axis.unit,
            description=f"Axis `{axis.letter}`: its value, or a list for a shape of each.",
        )
        for axis in AXES
    ),
    Setting(
        section="shapes.NAME",
        key="nightly",
        accept=flag,
        default=False,
        description="Whether the suite `nightly` measures it; else it is measured when named.",
    ),
    *SCHEDULE_SETTINGS,
    Setting(
        section="models.NAME",
        key="build",
        accept=text,
        is_required=True,
        description="Your own model: `package.module`, `package.module:attribute` or a file"
        " `path/to/file.py`, the path relative to hud.toml.",
    ),
    Setting(
        section="models.NAME",
        key="family",
        accept=text,
        default="own",
        description="Kind of model, to group it by.",
    ),
    Setting(
        section="models.NAME",
        key="num_samples",
        accept=count,
        unit="sample",
        default=1,
        description="Samples (batch size) that one iteration works through, for the throughput.",
    ),
    Setting(
        section="models.NAME",
        key="sizes",
        accept=sizes,
        description="Sizes by name, each the `config` that `build` gets:"
        " `[models.NAME.sizes.small]`. Default: one, `default`, whose `config` is empty.",
    ),
    Setting(
        section="models.NAME",
        key="tags",
        accept=texts,
        description="[Tags](#tags) of your own, to choose it by.",
    ),
    Setting(
        section="models.NAME",
        key="phases",
        accept=phases,
        default=("inference", "training"),
        description="Phases that the model can be measured in.",
    ),
    Setting(
        section="models.NAME",
        key="tolerance",
        accept=tolerances,
        description="How far results may be from fp64, by dtype:"
        " `{ bf16 = { min_cosine = 0.95 } }`. Default: that of the dtype.",
    ),
    Setting(
        section="models.NAME",
        key="keep_source",
        accept=flag,
        default=False,
        description="Whether a run keeps the text of the model's files (256 KiB at most), so that"
        " comparisons and alerts show the diff of changed code.",
    ),
    *VARIANT_SETTINGS,
    Setting(
        section="server",
        key="host",
        accept=text,
        default="127.0.0.1",
        description="Address that the dashboard listens on.",
    ),
    Setting(
        section="server",
        key="port",
        accept=port,
        default=8501,
        description="Port that the dashboard listens on; 0 takes a free one.",
    ),
    Setting(
        section="server",
        key="perfetto",
        accept=web_address,
        default=PERFETTO_URL,
        description="Address of the Perfetto UI that traces are handed to: one that you host, where"
        " browsers cannot reach this one.",
    ),
    Setting(
        section="server",
        key="url",
        accept=web_address,
        description="Where people reach the dashboard. Messages link there; without it they carry"
        " no links to decide by, and no addresses of pictures. The dashboard answers to its name.",
    ),
    Setting(
        section="server",
        key="link_secret",
        accept=secret_source,
        description=f"Where the secret that signs links is kept: `{ENV}NAME` or `{FILE}PATH`, the"
        " same for every runner and dashboard. Default: a file in the state directory.",
    ),
    Setting(
        section="server",
        key="link_days",
        accept=count,
        unit="day",
        default=14,
        description="Days for which the links of a message hold.",
    ),
    Setting(
        section="server",
        key="without_sign_in",
        accept=flag,
        default=False,
        description="Whether the dashboard may listen on addresses that other machines reach"
        " without an `[auth] issuer`.",
    ),
    *SIGN_IN_SETTINGS,
    *NOTIFICATION_SETTINGS,
)


def section_rows(section: str) -> Mapping[str, Setting]:
    """Return the settings of `section` by key; empty for a section that does not exist."""
    return {row.key: row for row in SETTINGS if row.section == section}
