"""Plant the causes of findings that a CPU can show, and measure each with its clean twin.

A cause is named if the planted model has its finding. The cost is compared with the latency that
removing the cause saves. `--zoo` adds the tiny models of the zoo, in which no rule may see a cause
that is not there. Both sides of a pair are sampled in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.findings import planted_models
from benchmarks.findings.launches import (
    Subject,
    findings_in,
    launch,
    result_of,
    sample_in_turn,
    without_caches,
)
from benchmarks.findings.planted_models import (
    Broken,
    Counted,
    Elementary,
    GuardedLayers,
    Interrupted,
    Leaking,
    Looped,
    Planted,
    Weights,
)
from benchmarks.findings.timed_findings import timed_findings
from benchmarks.hud_command import measured_by_hud
from benchmarks.startup import RESULTS, commit, describe_machine
from compile_hud.db.records.findings import TOTAL, Finding
from compile_hud.db.records.results import Phase

# 1: first version.
SCHEMA_VERSION = 1
# The share by which a cost may differ from the saving.
TOLERANCE = 0.2
NUM_REPEATS = 3
# Findings that name an attribute of a module.
_HOLDERS = {"memory-grows": "outputs"}
MODELS = Path(planted_models.__file__)
ZOO = (
    ("bert", "gpt2", "llama", "qwen", "moe", "t5", "whisper", "vit", "resnet", "convnext")
    + ("swin", "efficientnet", "mobilenet", "segformer", "clip", "dit", "dcgan", "dlrm")
    + ("rms_norm", "softmax")
)
_SETTINGS = """
[run]
launches = 1
max_launches = 1
target_interval = 0.0
rounds = 10
budget_s = 2.0
sweep = false
reference_cases = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A cause and its twin without it.

    `line` is code of the planted line; otherwise the finding has to have the word `operator`. With
    `is_against_eager` the twin is the eager model. Without `has_cost` the finding has none.
    """

    code: str
    planted: Subject
    clean: Subject
    line: str = ""
    operator: str = ""
    size: str = ""
    has_cost: bool = True
    is_against_eager: bool = False


def _rows(number: int) -> dict[str, Tensor]:
    return {"x": torch.linspace(-3, 3, number * 1024).reshape(number, 1024)}


def _square(width: int) -> dict[str, Tensor]:
    return {"x": torch.linspace(-1, 1, width * width).reshape(width, width)}


def _cause(code: str, cause: planted_models.Work, *, operator: str, num_rows: int) -> Plant:
    return Plant(
        code=code,
        planted=Subject(make=lambda: Planted(cause), inputs=_rows(num_rows)),
        clean=Subject(make=lambda: Planted(None), inputs=_rows(num_rows)),
        operator=operator,
        size=f"{num_rows} x 1024",
    )


def _optimizer(width: int) -> Plant:
    trained = Subject(
        make=lambda: Weights(width), inputs={"x": torch.ones(2, width)}, phase=Phase.TRAINING
    )
    return Plant(
        code="unfused-optimizer",
        planted=trained,
        clean=replace(trained, is_fused=True),
        operator="lerp",
        size=f"{width} x {width}",
    )


def _break(make: Callable[..., torch.nn.Module], line: str, name: str, *, width: int) -> Plant:
    planted, clean = (
        Subject(make=partial(make, **{name: is_bad}, width=width), inputs=_square(width))
        for is_bad in (True, False)
    )
    return Plant(
        code="graph-break",
        planted=planted,
        clean=clean,
        line=line,
        size=f"{width} x {width}",
    )


def _without_cost(
    code: str, make: Callable[..., torch.nn.Module], line: str, **names: Any
) -> Plant:
    (name, (bad, good)) = next(iter(names.items()))
    return Plant(
        code=code,
        planted=Subject(make=lambda: make(**{name: bad}), inputs=_square(64)),
        clean=Subject(make=lambda: make(**{name: good}), inputs=_square(64)),
        line=line,
        has_cost=False,
    )


def plants() -> tuple[Plant, ...]:
    """Return all pairs."""
    large = {"x": torch.linspace(-3, 3, 1 << 19).reshape(512, 1024)}
    chain = {"x": torch.ones(2, 16)}
    return (
        *(
            _cause("extern-fallback", planted_models.ordered, operator="sort", num_rows=number)
            for number in (4, 16, 128)
        ),
        _cause("layout-copies", planted_models.transposed, operator="clone", num_rows=384),
        _cause("dtype-conversions", planted_models.converted, operator="convert", num_rows=384),
        *(
            _cause("unsupported-codegen", planted_models.rotated, operator="mul", num_rows=number)
            for number in (16, 128, 1024)
        ),
        *map(_optimizer, (128, 384, 768)),
        Plant(
            code="slower-kernel",
            planted=Subject(make=Elementary, inputs=large),
            clean=Subject(make=Elementary, inputs=large, is_eager=True),
            operator="tanh",
            is_against_eager=True,
        ),
        Plant(
            code=TOTAL,
            planted=Subject(make=Elementary, inputs=large),
            clean=Subject(make=Elementary, inputs=large, is_eager=True),
            # The cost is the difference itself.
            has_cost=False,
            is_against_eager=True,
        ),
        Plant(
            code="guard-overhead",
            planted=Subject(make=lambda: GuardedLayers(150), inputs=chain),
            # The same model without guards would share its code, and so its cache.
            clean=Subject(make=Elementary, inputs=large),
            has_cost=False,
        ),
        *(
            _break(Broken, "torch._dynamo.graph_break()", "is_broken", width=width)
            for width in (16, 64)
        ),
        *(
            _break(Interrupted, "x = untraced(self.other, x)", "is_interrupted", width=width)
            for width in (16, 64, 256)
        ),
        _without_cost(
            "not-compiled", Looped, "torch._dynamo.graph_break()", is_broken=(True, False)
        ),
        _without_cost("recompiles", Counted, "self.num_calls = min(", most=(5, 1)),
        _without_cost("memory-grows", Leaking, "", is_leaking=(True, False)),
    )


def measure(plant: Plant, folder: Path) -> dict[str, Any]:
    """Return one pair: its findings, the cost and the saving."""
    clean = launch(plant.clean, folder)
    clean_result = result_of(clean)
    planted = launch(plant.planted, folder)
    sample_in_turn([clean, planted])
    eager = clean if plant.is_against_eager else None
    result = result_of(planted, eager=eager)
    began_s = time.process_time()
    findings = findings_in(result, eager=clean_result if eager else None)
    findings_s = time.process_time() - began_s
    named = next((item for item in findings if item.code == plant.code), None)
    others = [] if eager else [item.code for item in findings_in(clean_result)]
    return {
        "code": plant.code,
        "is_named": named is not None,
        "has_location": named is not None and has_location(plant, named),
        "text": "" if named is None else named.text,
        "cost_s": None if named is None else named.cost_s,
        "one_time_s": None if named is None else named.one_time_s,
        "one_time_saved_s": planted.first_calls_s - clean.first_calls_s,
        "saved_s": planted.latency_s - clean.latency_s,
        "latencies_s": [planted.latency_s, clean.latency_s],
        "is_in_twin": plant.code in others,
        "findings_s": findings_s,
    }


def has_location(plant: Plant, finding: Finding) -> bool:
    """Return whether a finding has the planted line, or the operator of the plant."""
    if plant.line:
        lines = MODELS.read_text(encoding="ascii").splitlines()
        numbers = [number for number, text in enumerate(lines, 1) if plant.line in text]
        return finding.where.line in {f"{MODELS.name}:{number}" for number in numbers}
    words = " ".join((*finding.where.operators, finding.text, finding.where.module))
    return (plant.operator or _HOLDERS.get(plant.code, "")) in words


def combined(plant: Plant, repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of a plant: how often it was named, and the median of cost over saving."""
    ratios = [row["cost_s"] / row["saved_s"] for row in repeats if row["cost_s"] is not None]
    ratio = statistics.median(ratios) if ratios and plant.has_cost else None
    once = [
        row["one_time_s"] / row["one_time_saved_s"]
        for row in repeats
        if row.get("one_time_s") is not None
    ]
    return {
        "code": plant.code,
        "size": plant.size,
        "num_repeats": len(repeats),
        "num_named": sum(row["is_named"] for row in repeats),
        "num_located": sum(row["has_location"] for row in repeats),
        "num_in_twin": sum(row["is_in_twin"] for row in repeats),
        "cost_over_saving": ratio,
        "one_time_over_saving": statistics.median(once) if once else None,
        "is_within_tolerance": None if ratio is None else abs(ratio - 1) <= TOLERANCE,
        "findings_s": max(row["findings_s"] for row in repeats),
        "repeats": list(repeats),
    }


def zoo(models: Sequence[str]) -> list[dict[str, Any]]:
    """Return the findings of tiny models of the zoo in mode default, by `hud run`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hud.toml").write_text(_SETTINGS, encoding="ascii")
        return [_of_zoo(folder, model) for model in models]


def _of_zoo(folder: Path, model: str) -> dict[str, Any]:
    document = measured_by_hud(folder, model, "--shape", "tiny", "--phase", "inference")
    result = next(item for item in document.results if not item.case.is_eager)
    findings, findings_s = timed_findings(document, result)
    return {
        "model": model,
        "outcome": str(result.outcome),
        "findings_s": findings_s,
        "findings": [
            {"code": item.code, "text": item.text, "cost_s": item.cost_s} for item in findings
        ],
    }


def summary(
    rows: Sequence[Mapping[str, Any]], models: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the shares of the goals."""
    num_repeats = sum(row["num_repeats"] for row in rows)
    measured = [row for row in rows if row["cost_over_saving"] is not None]
    return {
        "num_plants": len(rows),
        "named_share": sum(row["num_named"] for row in rows) / num_repeats,
        "located_share": sum(row["num_located"] for row in rows) / num_repeats,
        "num_in_twins": sum(row["num_in_twin"] for row in rows),
        "num_costs": len(measured),
        "num_costs_within_tolerance": sum(row["is_within_tolerance"] for row in measured),
        "num_models": len(models),
        "num_findings_of_models": sum(len(row["findings"]) for row in models),
        "max_findings_s": max(row["findings_s"] for row in (*rows, *models)),
    }


def main() -> None:
    """Measure the pairs, and of the zoo so many models, and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", action="append", help="only the plants of this finding")
    parser.add_argument("--repeats", type=int, default=NUM_REPEATS)
    parser.add_argument("--zoo", type=int, default=0, metavar="N", help="so many models of the zoo")
    parser.add_argument("--out", type=Path, default=RESULTS / "findings_planted.json")
    options = parser.parse_args()
    machine = describe_machine()
    rows = []
    chosen = [item for item in plants() if not options.code or item.code in options.code]
    with without_caches(), tempfile.TemporaryDirectory() as folder:
        for plant in chosen:
            repeats = [measure(plant, Path(folder)) for _ in range(options.repeats)]
            rows.append(combined(plant, repeats))
            print({key: value for key, value in rows[-1].items() if key != "repeats"}, flush=True)
    models = zoo(ZOO[: options.zoo])
    document = {
        "schema_version": SCHEMA_VERSION,
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine,
        "tolerance": TOLERANCE,
        "summary": summary(rows, models),
        "plants": rows,
        "zoo": models,
    }
    options.out.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")
    print(json.dumps(document["summary"], indent=1))


if __name__ == "__main__":
    main()
