"""docs/explanation/gpu.md, drawn from the ledger, which is the only source of its figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.gpu.claims import ClaimVerdict, Judged, judge_claims
from benchmarks.gpu.eager import EagerLevels, Workload
from benchmarks.gpu.ledger import Row, newest
from benchmarks.gpu.ledger import rows as all_rows
from benchmarks.gpu.noise import HOST_BOUND, launch_spreads, repeats
from compile_hud.db.records.results import Outcome, RunDocument
from compile_hud.runner.analysis.stats.cohort import geometric_mean
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.format import quantity
from compile_hud.runner.reporting.study_report import estimate_text

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "gpu.md"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_INTRODUCTION = """\
# What GPUs showed

This page lists what Compile HUD measured on GPUs, next to the figures that others published.
`python -m benchmarks.gpu.merge` draws it from the result documents in `benchmarks/gpu/ledger/`.
[GPU campaigns](../../benchmarks/README.md#gpu-campaigns) says how to add to it.

Brackets are 95 % intervals of measuring the same cases again. *n of m* counts the models that have
a number among those that were measured. `-` means that nothing is recorded."""
_CLAIMS = """\
*Ours* is the best of the ways to execute, with its interval. *Range* also counts what the speedup
would be over each other eager process of the same case. A figure of a gain is `reproduced` where
all of the range reaches its lower end, and `refuted` where none of it does. 5 % is allowed."""
_NOISE = """\
Each process of a compiled case measures eager too, so the same eager code ran several times. Where
the GPU waits for the host, the processes differ by up to a factor of two. Where the host waits for
the GPU, they agree within a few per cent. A speedup pairs both sides in one process. It still
inherits the pace of that process where only one side waits for the host."""
_COMPILE = """\
Each launch compiles on one core while up to 15 others do the same. These times compare with each
other, and not with a machine that compiles one model at a time. A warm compilation is a second
process with a filled cache."""
_MASK = """\
A tokenizer returns a mask with its tokens. A model that is called without one gets no mask in eager
mode. When it is compiled, transformers builds a mask (huggingface/transformers#48925). The releases
5.17 and 5.23 both do, under torch 2.11. No fused kernel takes that mask, so attention becomes two
products in fp32, and the model gains little or gets slower. BERT loses this way without the mask of
a tokenizer, and so does ViT, which has none."""
_LAUNCHES = """\
Each row is of compiled cases that two processes of one campaign measured, one after the other. The
numbers are relative standard deviations between processes: that of a normal distribution with the
same median distance, and the root mean square. The second is larger since a few processes are far
off. A speedup varies with eager, which waits for the host."""
_REPEATS = """\
These cases were measured in two campaigns on the same day, with the same torch and transformers.
They agree where the 95 % intervals overlap. The interval of one process or two is too narrow where
eager waits for the host."""


def page_text(documents: Sequence[RunDocument]) -> str:
    """Return the page."""
    parts = [_INTRODUCTION, "## Campaigns", _campaigns(documents)]
    devices = dict.fromkeys(name for name, _ in newest(documents))
    for device in devices:
        parts += _device_parts(documents, device=device)
    return "\n\n".join(part for part in parts if part) + "\n"


def _device_parts(documents: Sequence[RunDocument], *, device: str) -> Iterator[str]:
    own = [row for (name, _), row in newest(documents).items() if name == device]
    eager = EagerLevels(documents, device=device)
    yield f"## {device}"
    for title, text, table in (
        ("Published figures", _CLAIMS, _claims(judge_claims(documents, device=device))),
        ("Speedup by family, inference in bf16", "", _families(own)),
        ("Model by model, inference in bf16", "", _models(own, eager)),
        ("Compile time and memory, inference in bf16", _COMPILE, _costs(own)),
        ("BERT over batch and length", "", _grid(own)),
        ("BERT, ViT and the mask", _MASK, _mask(documents, device=device)),
        ("Training under AMP", "", _training(own)),
        ("Where the time goes", "", _kinds(own)),
        ("How far processes differ", _NOISE, _noise(eager)),
        ("Processes of one compiled case", _LAUNCHES, _launches(documents, device=device)),
        ("Measured again", _REPEATS, _repeats(documents, device=device)),
    ):
        if table:
            yield f"### {title}"
            yield text
            yield table


def _campaigns(documents: Sequence[RunDocument]) -> str:
    lines = []
    for document in documents:
        facts, run = document.run.environment, document.run
        ended = run.finished_at or run.started_at
        num_ok = sum(result.outcome is Outcome.OK for result in document.results)
        lines.append(
            (
                f"{run.started_at:%Y-%m-%d %H:%M} UTC",
                str(facts.get("device_name")),
                str(facts.get("driver_version")),
                str(facts.get("torch_version")),
                str(facts.get("triton_version")),
                str(facts.get("transformers_version")),
                f"{num_ok} of {len(document.results)}",
                f"{(ended - run.started_at).total_seconds():.0f} s",
            )
        )
    head = ("measured", "device", "driver", "torch", "Triton", "transformers", "ok", "lasted")
    return _markdown(head, lines)


def _claims(judged: Sequence[Judged]) -> str:
    lines = []
    for item in judged:
        figure = item.claim.published
        ours = bounds = measured = "-"
        if item.cell is not None and item.cell.estimate is not None:
            ours = f"`{item.variant}` {estimate_text(item.cell.estimate, metric='speedup')}"
            if item.cell.num_subjects > 1:
                ours += f", {item.cell.num_common} of {item.cell.num_subjects}"
            bounds = f"{item.bounds[0]:.2f} to {item.bounds[1]:.2f}"
            measured = _provenance(item.rows)
        verdict = str(item.verdict) + (f": {item.reason}" if item.reason else "")
        source = (figure.what, figure.text, figure.device, figure.source)
        lines.append((*source, ours, bounds, verdict, measured))
    counts = ", ".join(
        f"{sum(item.verdict is verdict for item in judged)} {verdict}" for verdict in ClaimVerdict
    )
    head = ("claim", "published", "on", "by", "ours", "range", "verdict", "measured")
    return f"Of {len(judged)} figures: {counts}.\n\n" + _markdown(head, lines)


def _provenance(rows: Sequence[Row]) -> str:
    torches = dict.fromkeys(str(row.run.environment.get("torch_version")) for row in rows)
    dates = dict.fromkeys(f"{row.result.started_at:%Y-%m-%d}" for row in rows)
    return f"torch {', '.join(torches)}; {', '.join(dates)}"


def _full_inference(rows: Sequence[Row]) -> list[Row]:
    return [
        row
        for row in rows
        if row.case.shape == "full"
        and (str(row.case.phase), str(row.case.dtype)) == ("inference", "bf16")
    ]


def _by_model(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    by_variant: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_variant.setdefault(row.case.model, {})[row.case.variant] = row
    return by_variant


def _families(rows: Sequence[Row]) -> str:
    families: dict[str, dict[str, list[tuple[str, float]]]] = {}
    models: dict[str, set[str]] = {}
    for row in _full_inference(rows):
        models.setdefault(row.case.family, set()).add(row.case.model)
        speedup = _median(row, "speedup")
        if speedup is not None:
            family = families.setdefault(row.case.family, {})
            family.setdefault(row.case.variant, []).append((row.case.model, speedup))
    lines = [
        (f"`{family}`", *(_mean_text(by_mode.get(mode, ()), len(models[family])) for mode in MODES))
        for family, by_mode in families.items()
    ]
    return _markdown(("family", *(f"`{mode}`" for mode in MODES)), lines) if lines else ""


def _mean_text(values: Sequence[tuple[str, float]], num_models: int) -> str:
    if not values:
        return "-"
    mean = geometric_mean(value for _, value in values)
    return f"{mean:.2f}x, {len(values)} of {num_models}"


def _models(rows: Sequence[Row], eager: EagerLevels) -> str:
    lines = []
    for model, by_variant in _by_model(_full_inference(rows)).items():
        levels = eager.by_workload.get(Workload.of(next(iter(by_variant.values())).case), [])
        spread = f"{_seconds(min(levels))} to {_seconds(max(levels))}" if levels else "-"
        cells = [_estimate(by_variant.get(mode), "speedup") for mode in MODES]
        lines.append((f"`{model}`", spread, *cells))
    head = ("model", "eager, process by process", *(f"`{mode}`" for mode in MODES))
    return _markdown(head, lines) if lines else ""


def _costs(rows: Sequence[Row]) -> str:
    lines = []
    for model, by_variant in _by_model(_full_inference(rows)).items():
        cells = [
            quantity(_median(by_variant.get(mode), metric), unit="s")
            for mode in ("default", "reduce-overhead")
            for metric in ("compile_cold_s", "compile_warm_s")
        ]
        cells += [
            quantity(_median(by_variant.get(mode), "peak_bytes"), unit="B")
            for mode in ("eager", "default", "reduce-overhead")
        ]
        if any(cell != "-" for cell in cells):
            lines.append((f"`{model}`", *cells))
    head = (
        *("model", "`default` cold", "`default` warm", "`reduce-overhead` cold"),
        *("`reduce-overhead` warm", "memory `eager`", "`default`", "`reduce-overhead`"),
    )
    return _markdown(head, lines) if lines else ""


def _grid(rows: Sequence[Row]) -> str:
    cells: dict[str, dict[tuple[str, str], Row]] = {}
    for row in rows:
        case = row.case
        if case.model == "bert" and case.shape.startswith("full-b"):
            cells.setdefault(case.shape, {})[(str(case.dtype), case.variant)] = row
    columns = [
        (dtype, mode)
        for mode in ("default", "reduce-overhead")
        for dtype in ("fp32", "fp16", "bf16")
    ]
    lines = [
        (f"`{shape}`", *(_estimate(by_column.get(column), "speedup") for column in columns))
        for shape, by_column in sorted(cells.items(), key=lambda item: _sizes(item[0]))
    ]
    head = ("shape", *(f"`{mode}` {dtype}" for dtype, mode in columns))
    return _markdown(head, lines) if lines else ""


def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(int(part[1:]) for part in shape.split("-")[1:])


def _mask(documents: Sequence[RunDocument], *, device: str) -> str:
    shapes = {"full": "ones", "full_padded": "with padding", "full_unmasked": "none"}
    newest_rows: dict[tuple[str, ...], Row] = {}
    for row in all_rows(documents):
        case = row.case
        is_asked = case.model in ("bert", "vit") and case.shape in shapes
        is_asked = is_asked and case.variant in ("default", "reduce-overhead")
        is_asked = is_asked and (str(case.phase), str(case.dtype)) == ("inference", "bf16")
        if is_asked and row.device_name == device and row.result.outcome is Outcome.OK:
            release = str(row.run.environment.get("transformers_version"))
            newest_rows[(case.model, case.shape, case.variant, release)] = row
    lines = [
        (
            f"`{model}`",
            f"`{shape}`",
            "none" if model == "vit" else shapes[shape],
            release,
            f"`{variant}`",
            _estimate(row, "speedup"),
            _seconds_of(row, "eager_latency_s"),
            _seconds_of(row, "latency_s"),
            _kind_time(row, "attention"),
        )
        for (model, shape, variant, release), row in newest_rows.items()
    ]
    head = (
        *("model", "shape", "mask", "transformers", "mode", "speedup", "eager", "compiled"),
        "attention kernels",
    )
    return _markdown(head, sorted(lines)) if lines else ""


def _seconds_of(row: Row, metric: str) -> str:
    return quantity(_median(row, metric), unit="s")


def _kind_time(row: Row, kind: str) -> str:
    if not row.result.kernels:
        return "-"
    return quantity(sum(item.total_s for item in row.result.kernels if item.kind == kind), unit="s")


def _training(rows: Sequence[Row]) -> str:
    training = [
        row
        for row in rows
        if (str(row.case.phase), row.case.shape) == ("training", "full")
        and row.case.variant != "eager"
    ]
    lines = [
        (
            f"`{row.case.model}`",
            str(row.case.dtype),
            f"`{row.case.variant}`",
            _estimate(row, "speedup"),
            quantity(_median(row, "eager_latency_s"), unit="s"),
            quantity(_median(row, "latency_s"), unit="s"),
            quantity(_median(row, "peak_bytes"), unit="B"),
        )
        for row in training
    ]
    head = ("model", "dtype", "mode", "speedup", "eager", "compiled", "peak memory")
    return _markdown(head, sorted(lines)) if lines else ""


def _kinds(rows: Sequence[Row]) -> str:
    lines, kinds = [], ("gemm", "convolution", "attention", "fused", "idle")
    for model, by_variant in _by_model(_full_inference(rows)).items():
        row = by_variant.get("default")
        profile = None if row is None else row.result.details.get("profile")
        if not profile:
            continue
        parts: Mapping[str, float] = profile["parts"]
        total_s = sum(parts.values())
        shares = [parts.get(kind, 0.0) / total_s for kind in kinds]
        others = 1.0 - sum(shares)
        lines.append((f"`{model}`", *(f"{share:.0%}" for share in (*shares, others))))
    if not lines:
        return ""
    text = (
        "Shares of an iteration of `default` under the profiler, which makes the host slower: the"
        " share of `idle` is an upper bound."
    )
    return f"{text}\n\n" + _markdown(("model", *(f"`{kind}`" for kind in kinds), "other"), lines)


def _noise(eager: EagerLevels) -> str:
    groups: dict[str, list[float]] = {}
    for workload, levels in eager.by_workload.items():
        share = eager.host_shares.get(workload)
        if share is not None and len(levels) > 2:
            kind = "host" if share >= HOST_BOUND else "GPU"
            groups.setdefault(kind, []).append(max(levels) / min(levels) - 1)
    lines = [
        (
            f"the {kind}",
            str(len(spreads)),
            f"{statistics.median(spreads):.1%}",
            f"{min(spreads):.1%} to {max(spreads):.1%}",
        )
        for kind, spreads in sorted(groups.items())
    ]
    head = ("eager waits for", "workloads", "slowest over fastest process, median", "all")
    return _markdown(head, lines) if lines else ""


def _launches(documents: Sequence[RunDocument], *, device: str) -> str:
    lines = [
        (
            f"`{item.metric}`",
            f"the {item.waits_for}",
            str(item.num_cases),
            f"{item.median_sd:.1%}",
            f"{item.root_mean_square:.1%}",
        )
        for item in launch_spreads(documents, device=device)
    ]
    head = ("metric", "compiled waits for", "cases", "from the median", "root mean square")
    return _markdown(head, lines) if lines else ""


def _repeats(documents: Sequence[RunDocument], *, device: str) -> str:
    pairs = repeats(documents, device=device)
    if not pairs:
        return ""
    lines = [
        (
            f"`{case.model}` `{case.shape}` {case.phase} {case.dtype} `{case.variant}`",
            *(_seconds_of(row, "latency_s") for row in (pair.first, pair.again)),
            *(_estimate(row, "speedup") for row in (pair.first, pair.again)),
            "yes" if pair.agrees("speedup") else "no",
        )
        for pair in pairs
        for case in (pair.first.case,)
    ]
    counts = ", ".join(
        f"{sum(pair.agrees(metric) for pair in pairs)} of {len(pairs)} agree in {name}"
        for metric, name in (("latency_s", "latency"), ("speedup", "speedup"))
    )
    head = ("case", "latency", "again", "speedup", "again", "speedups agree")
    return f"{counts[0].upper()}{counts[1:]}.\n\n" + _markdown(head, lines)


def _median(row: Row | None, metric: str) -> float | None:
    measurement = None if row is None else row.result.measurement(metric)
    return None if measurement is None else measurement.median


def _estimate(row: Row | None, metric: str) -> str:
    if row is None:
        return "-"
    if row.result.outcome is not Outcome.OK:
        return str(row.result.outcome).replace("_", " ")
    measurement = row.result.measurement(metric)
    if measurement is None:
        return "-"
    return estimate_text(Estimate(measurement.median, *measurement.interval), metric=metric)


def _seconds(value: float) -> str:
    return quantity(value, unit="s")


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", "\\|") for cell in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
