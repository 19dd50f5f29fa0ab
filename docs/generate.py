"""Write the generated parts of the documents, or check that they are current.

A document has `<!-- generated: NAME -->` and `<!-- end generated -->` on lines of their own; the
text between them comes from the code. `--check` changes nothing and fails if a part is old.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from detection_tables import (
    ALERT_CONSTANTS,
    COMPARISON_CONSTANTS,
    detector_constants,
    module_constants,
    spreads,
    table,
)
from measurement_tables import (
    KERNEL_CONSTANTS,
    MEASUREMENT_CONSTANTS,
    MODE_CONSTANTS,
    accuracy_limits,
    table_of_constants,
)

from compile_hud.app.components.page_frame import POLL_S
from compile_hud.app.components.trend.window import MAX_POINTS
from compile_hud.app.data.health import FRESH_S
from compile_hud.app.data.store import DEFAULT_URL, LOCK_TIMEOUT_S
from compile_hud.app.ui.charts import LOG_DECADES
from compile_hud.app.views.kernels.trace_files import MAX_UPLOAD_MB
from compile_hud.app.views.overview.data import MAX_EVENTS
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.summaries import HEARTBEAT_TIMEOUT_S
from compile_hud.db.schema.markdown import markdown as schema
from compile_hud.db.schema.migrate import MIGRATIONS
from compile_hud.db.shared.text import first_line
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.publications import PUBLICATIONS
from compile_hud.models_zoo.catalog.spec import ConfigValue
from compile_hud.models_zoo.catalog.tags import GENERATION_STEP, TAGS
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.findings.registry import table as table_of_findings
from compile_hud.runner.analysis.stats.estimates import MAD_TO_SD, TAILS, TAILS_TO_SD
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.main import main as hud
from compile_hud.runner.config.schema import SETTINGS
from compile_hud.runner.documents.endpoints import ENDPOINTS, PREFIX
from compile_hud.runner.interop.importers import torchbench
from compile_hud.runner.interop.importers import vocabulary as foreign
from compile_hud.runner.planning.suites import BUILTIN_SUITES
from compile_hud.runner.remedies.catalog import REMEDIES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "models_zoo/README.md")
BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n)"
    r".*?"
    r"(?P<end><!-- end generated -->)",
    re.DOTALL,
)


def metrics() -> str:
    """Return the table of metrics."""
    return table(
        ("metric", "unit", "better", "floor", "judged", "meaning"),
        (
            (
                f"`{row.name}`",
                row.unit,
                str(row.direction).removesuffix("_is_better"),
                "any change" if row.is_exact else f"{row.relevance_floor:.0%}",
                "yes" if row.is_judged else "no",
                row.description,
            )
            for row in METRICS.values()
        ),
    )


def api() -> str:
    """Return the table of the paths of the API."""
    return table(
        ("path", "parameters", "objects"),
        (
            (
                f"`{PREFIX}{row.path}`",
                ", ".join(f"`{item.name}`" for item in row.parameters if not item.is_in_path),
                row.summary,
            )
            for row in ENDPOINTS
        ),
    )


def dashboard_numbers() -> str:
    """Return the table of the constants of the dashboard."""
    width = f"width of the middle {TAILS[1] - TAILS[0]:.0%}"
    return table(
        ("number", "value"),
        (
            ("store, without `--store`", f"`HUD_DATABASE_URL`, else `{DEFAULT_URL}`"),
            ("interval of looking for writes", f"{POLL_S:g} s"),
            ("interval of the page Health", f"{FRESH_S:g} s"),
            ("lock timeout of a page", f"{LOCK_TIMEOUT_S:g} s"),
            ("time without heartbeat after which a run is silent", f"{HEARTBEAT_TIMEOUT_S:g} s"),
            ("events in *Needs attention*", f"{MAX_EVENTS}"),
            (
                "points of a trend; of more, extremes and changes are drawn",
                f"{MAX_POINTS}",
            ),
            ("noise band", f"median +- {DEFAULT_CONFIG.noise_band_sds:g} robust SD"),
            (
                "robust SD",
                f"the larger of {MAD_TO_SD} x MAD and {TAILS_TO_SD:.4g} x the {width}",
            ),
            ("points of a noise band, at least", f"{DEFAULT_CONFIG.min_baseline_points}"),
            ("range of an axis from which it is logarithmic", f"{LOG_DECADES} decades"),
            ("size of a trace file", f"{MAX_UPLOAD_MB} MB"),
        ),
    )


def tags() -> str:
    """Return the table of tags."""
    families = ((f"`{tag}`", ", ".join(f"`{name}`" for name in TAGS[tag])) for tag in TAGS)
    return table(
        ("tag", "models of the families"),
        (
            *families,
            (f"`{GENERATION_STEP}`", "any, reading one token against a cache"),
            ("a family", "that family"),
        ),
    )


def variants() -> str:
    """Return the table of variants."""
    return table(
        ("variant", "mode", "backend", "phases", "meaning"),
        (
            (
                f"`{row.name}`",
                f"`{row.mode}`",
                f"`{row.backend}`",
                ", ".join(row.phases),
                row.summary,
            )
            for row in VARIANTS.values()
        ),
    )


def models() -> str:
    """Return the table of models."""
    return table(
        ("model", "family", "sizes", "what it stresses"),
        (
            (f"`{row.name}`", row.family, ", ".join(row.sizes), row.summary)
            for row in CATALOG.values()
        ),
    )


def publications() -> str:
    """Return the table of the `full` configurations, next to what is published."""
    rows = []
    for name, row in PUBLICATIONS.items():
        published = "" if row.published_gmacs is None else f"{row.published_gmacs:,g}"
        rows.append(
            (
                f"`{name}`",
                row.source,
                f"{row.num_parameters:,}",
                "same"
                if row.num_parameters == row.published_parameters
                else f"{row.published_parameters:,}",
                "-" if row.gmacs is None else f"{row.gmacs:,g}",
                f"{published} ({row.gmacs_source})" if published else "-",
                row.difference or "-",
            )
        )
    return table(
        ("model", "source", "parameters", "published", "GMAC", "published GMAC", "difference"), rows
    )


def other_inputs() -> str:
    """Return the table of the inputs of `full`, next to those of other benchmarks."""
    return table(
        ("model", "`full`", "TorchBench", "compiler dashboard"),
        (
            (
                f"`{name}`",
                _input(CATALOG[name].sizes["full"].config),
                row.torchbench or "-",
                row.dashboard or "-",
            )
            for name, row in PUBLICATIONS.items()
        ),
    )


def _input(config: Mapping[str, ConfigValue]) -> str:
    """Return the batch and the lengths of an iteration: `16 x 512, mask of ones`."""
    batch, mask = config["batch"], config.get("mask")
    if "cache_length" in config:
        size = f"{batch} x 1, {config['position']} of {config['cache_length']} cached"
    elif "source_length" in config:
        size = f"{batch} x ({config['source_length']} + {config['target_length']})"
    else:
        frames = f"{config['num_frames']} frames, " if "num_frames" in config else ""
        side = config.get("image_size", config.get("latent_size"))
        pixels = f"{side} x {side}" if side else ""
        texts = f"{batch} x {config['length']}" if "length" in config else ""
        size = ", ".join(filter(None, (f"{batch} x {pixels}" if pixels else "", texts)))
        size = f"{batch} x {frames}{size}" if frames else size or str(batch)
    return f"{size}, {'no mask' if mask == 'none' else 'mask of ones'}" if mask else size


def attention_masks() -> str:
    """Return the table of one model with several masks, and how it was measured."""
    path = ROOT / "benchmarks" / "results" / "attention_masks.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]

    def speedup(row: dict[str, Any]) -> str:
        if row["speedup"] is None:
            return "-"
        return "{:.2f}x [{:.2f}, {:.2f}]".format(*row["speedup"])

    return table(
        ("shape", "dtype", "mode", "CPU time", "speedup", "attention kernels", "all kernels"),
        (
            (
                f"`{row['shape']}`",
                row["dtype"],
                f"`{row['variant']}`",
                f"{row['latency_cpu_s'] * 1e3:.2f} ms",
                speedup(row),
                f"{row['num_attention_kernels']:.0f}{', with a mask' if row['has_mask'] else ''}",
                f"{row['num_kernels']:.0f}",
            )
            for row in rows
        ),
    )


def attention() -> str:
    """Return the table of the attention calls of the zoo, eager and compiled, with its notes."""
    path = ROOT / "benchmarks" / "results" / "attention_fidelity.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    notes: dict[str, int] = {}

    def calls(side: dict[str, int]) -> str:
        total, masked = side["masked"] + side["unmasked"], side["masked"]
        if total == 0:
            return "none"
        return f"{total}" if masked == 0 else f"{total} ({masked} with a mask)"

    def note(row: dict[str, Any]) -> str:
        if row["eager"] == row["compiled"]:
            return ""
        text = CATALOG[row["model"]].attention_note
        return f"({notes.setdefault(text, len(notes) + 1)})"

    made = table(
        ("model", "mask of the inputs", "eager calls", "compiled calls", "note"),
        (
            (
                f"`{row['model']}`",
                row["mask"] or "-",
                calls(row["eager"]),
                calls(row["compiled"]),
                note(row),
            )
            for row in rows
        ),
    )
    return made + "\n" + "".join(f"{number}. {text}\n" for text, number in notes.items())


def suites() -> str:
    """Return the table of the suites that come with Compile HUD."""
    return table(
        ("suite", "meaning"),
        ((f"`{row.name}`", row.summary) for row in BUILTIN_SUITES.values()),
    )


def studies() -> str:
    """Return the table of the studies; those with a page in the documents link to it."""
    rows = []
    for row in STUDIES.values():
        page = ROOT / "docs" / "explanation" / "studies" / f"{row.name}.md"
        name = f"[`{row.name}`](studies/{row.name}.md)" if page.exists() else f"`{row.name}`"
        rows.append((name, row.question, str(len(row.published))))
    return table(("study", "asks", "published figures"), rows)


def decisions() -> str:
    """Return the list of the decisions, the oldest first."""
    titles = {
        path.name: first_line(path.read_text(encoding="utf-8")).removeprefix("# ")
        for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    }
    return "".join(
        f"- [{title[:4]}]({name}) {title[6:]}\n"
        for name, title in titles.items()
        if not name.startswith("0000")
    )


def findings() -> str:
    """Return the table of findings."""
    return table(
        ("finding", "meaning", "remedy", "derived from", "from a share of", "`hud try`"),
        (
            (
                f"`{row.code}`",
                row.meaning,
                row.remedy,
                row.source,
                row.share_text,
                "yes" if row.code in REMEDIES else "-",
            )
            for row in table_of_findings()
        ),
    )


def settings() -> str:
    """Return the table of the settings of hud.toml."""
    return table(
        ("section", "key", "default", "meaning"),
        (
            (
                f"`[{row.section}]`",
                "any name" if row.key == "*" else f"`{row.key}`",
                "required" if row.is_required else _default(row.default),
                row.description,
            )
            for row in SETTINGS
        ),
    )


def commands() -> str:
    """Return the table of the subcommands of `hud`."""
    return table(("command", "does"), _walk(hud, name="hud"))


def exit_codes() -> str:
    """Return the table of the exit codes that mean something else for each command."""
    rows = [
        (f"`{name}`", str(code), text)
        for name, command in _leaves(hud, name="hud")
        if isinstance(command, ExampleCommand)
        for code, text in command.exit_codes.items()
    ]
    return table(("command", "code", "means"), rows)


def imported_metrics() -> str:
    """Return the table of the metrics of other tools that have another name here."""
    metric_names = {"v3, dynamo-csv": foreign.KNOWN_METRICS, "torchbench": torchbench.METRICS}
    return table(
        ("format", "their metric", "ours", "factor"),
        (
            (name, f"`{theirs}`", f"`{ours}`", f"{factor:g}")
            for name, metrics in metric_names.items()
            for theirs, (ours, factor) in metrics.items()
        ),
    )


def foreign_words() -> str:
    """Return the table of the dtypes, phases and outcomes of other tools."""
    kinds = {
        "dtype": foreign.DTYPES.items(),
        "phase": foreign.PHASES.items(),
        "accuracy check": foreign.OUTCOMES,
    }
    return table(
        ("what", "their word", "ours"),
        (
            (kind, f"`{theirs}`", f"`{ours}`")
            for kind, words in kinds.items()
            for theirs, ours in words
        ),
    )


def upgrades() -> str:
    """Return the table of the schema's revisions."""
    rows = []
    for path in sorted(MIGRATIONS.glob("m[0-9]*.py")):
        described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        rows.append((f"`{path.stem.partition('_')[0]}`", first_line(described)))
    return table(("schema", "what it does to a store"), rows)


GENERATORS: dict[str, Callable[[], str]] = {
    "accuracy-limits": accuracy_limits,
    "api": api,
    "dashboard-numbers": dashboard_numbers,
    "commands": commands,
    "constants": detector_constants,
    "constants-alerts": partial(module_constants, ALERT_CONSTANTS),
    "constants-comparison": partial(module_constants, COMPARISON_CONSTANTS),
    "decisions": decisions,
    "exit-codes": exit_codes,
    "findings": findings,
    "foreign-metrics": imported_metrics,
    "foreign-words": foreign_words,
    "kernel-constants": partial(table_of_constants, KERNEL_CONSTANTS),
    "measurement-constants": partial(table_of_constants, MEASUREMENT_CONSTANTS),
    "mode-constants": partial(table_of_constants, MODE_CONSTANTS),
    "metrics": metrics,
    "models": models,
    "publications": publications,
    "other-inputs": other_inputs,
    "attention": attention,
    "attention-masks": attention_masks,
    "schema": schema,
    "settings": settings,
    "spreads": spreads,
    "studies": studies,
    "suites": suites,
    "tags": tags,
    "upgrades": upgrades,
    "variants": variants,
}


def _default(value: object) -> str:
    if value is None or value == ():
        return "-"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`"


def _walk(command: click.Command, *, name: str) -> Iterable[tuple[str, str]]:
    for leaf_name, leaf in _leaves(command, name=name):
        arguments = [item for item in leaf.params if isinstance(item, click.Argument)]
        usage = " ".join([leaf_name, *(_usage(item) for item in arguments)])
        yield f"`{usage}`", leaf.get_short_help_str(limit=120)


def _leaves(command: click.Command, *, name: str) -> Iterable[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for child_name, child in command.commands.items():
        if not child.hidden:
            yield from _leaves(child, name=f"{name} {child_name}")


def _usage(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name + ("..." if argument.nargs == -1 and not name.endswith("...") else "")


def render(text: str, *, source: str) -> str:
    """Return `text` with every generated part made anew; raise KeyError for an unknown name."""

    def body(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in GENERATORS:
            raise KeyError(f"{source}: nothing generates {name!r}; known: {', '.join(GENERATORS)}")
        return f"{match['begin']}{GENERATORS[name]()}{match['end']}"

    return BLOCK.sub(body, text)


def main(arguments: list[str]) -> int:
    """Write or check all documents; return the exit status."""
    paths = [path for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]
    stale = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        fresh = render(text, source=str(path.relative_to(ROOT)))
        if fresh != text:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in arguments:
                path.write_text(fresh, encoding="utf-8")
    if stale and "--check" in arguments:
        sys.stderr.write(f"not current: {', '.join(stale)}; `make docs` writes them again\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
