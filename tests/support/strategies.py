"""hypothesis strategies for every record."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime, timezone
from random import Random
from typing import Any

from hypothesis import strategies as st

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.kernels import KINDS, LIBRARIES, Kernel, KernelSource, Origin, Profile
from compile_hud.db.records.results import (
    Case,
    CaseResult,
    Dtype,
    Measurement,
    Outcome,
    Phase,
    Run,
    RunDocument,
    RunRef,
    RunState,
    Verdict,
)
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.triage import AlertChange, ChangedField, SeriesSettings
from compile_hud.db.shared.quantities import LARGEST, SMALLEST
from compile_hud.runner.analysis.kernels.grouping import KernelSide

# Text that both databases store unchanged: `clean_text` in db/rows/mapping.py replaces the rest.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
# Triage decisions are stored as one printable line.
LINES = st.text(st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S"]), max_size=20)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.%'", min_size=1, max_size=12)
# Numbers that a measurement can have.
AMOUNTS = st.just(0.0) | st.floats(min_value=SMALLEST, max_value=LARGEST)
NUMBERS = AMOUNTS | AMOUNTS.map(lambda amount: -amount)
TIMES = st.datetimes(
    min_value=datetime(1990, 1, 1),  # noqa: DTZ001
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(timezone.utc),
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
JSON_OBJECTS = st.dictionaries(TEXT, JSON_VALUES, max_size=3)

CASES = st.builds(
    Case,
    model=NAMES,
    family=NAMES,
    phase=st.sampled_from(Phase),
    shape=NAMES,
    dtype=st.sampled_from(Dtype),
    mode=NAMES,
    variant=NAMES,
    backend=TEXT,
    device=NAMES,
)
WARNINGS = st.builds(RunWarning, code=NAMES, text=TEXT, hint=TEXT)
SIGHTINGS = st.builds(RunRef, run_id=NAMES, revision=TEXT, at=TIMES)


ORIGINS = st.builds(
    Origin,
    node=NAMES,
    target=TEXT,
    module=TEXT,
    file=TEXT,
    line=st.integers(0, 10**6),
    code=TEXT,
)
KERNELS = st.builds(
    Kernel,
    name=TEXT,
    label=TEXT,
    kind=st.sampled_from(KINDS),
    library=st.sampled_from(LIBRARIES),
    device=NAMES,
    count=AMOUNTS,
    total_s=AMOUNTS,
    mean_s=AMOUNTS,
    min_s=AMOUNTS,
    share=AMOUNTS,
    num_bytes=st.none() | AMOUNTS,
    flops=st.none() | AMOUNTS,
    roofline=st.none() | AMOUNTS,
    operators=st.lists(TEXT, max_size=3).map(tuple),
    module=TEXT,
    shapes=TEXT,
    source_hash=TEXT,
    config=JSON_OBJECTS,
    launch=JSON_OBJECTS,
    origins=st.lists(ORIGINS, max_size=2).map(tuple),
)


def _source(language: str, text: str) -> KernelSource:
    digest = hashlib.sha256(f"{language} {text}".encode()).hexdigest()
    return KernelSource(hash=digest, language=language, text=text)


SOURCES = st.builds(_source, st.sampled_from(["triton", "cpp"]), TEXT)
PROFILES = st.builds(
    Profile,
    num_iterations=st.integers(1, 100),
    iteration_s=AMOUNTS,
    latency_s=st.none() | AMOUNTS,
    components=st.dictionaries(TEXT, AMOUNTS, max_size=3),
    busy=st.none() | AMOUNTS,
    is_graph_replay=st.booleans(),
    overlap_s=AMOUNTS,
    trace=TEXT,
)


@st.composite
def measurements(draw: st.DrawFn, *, metric: str | None = None) -> Measurement:
    """Return a measurement whose launches add up."""
    launches = draw(st.lists(st.integers(0, 3), max_size=3).filter(lambda item: sum(item) > 0))
    num_samples = sum(launches) or draw(st.integers(1, 4))
    samples = draw(st.lists(NUMBERS, min_size=num_samples, max_size=num_samples))
    return Measurement(
        metric=metric or draw(NAMES),
        unit=draw(NAMES),
        samples=tuple(samples),
        median=draw(NUMBERS),
        interval=(draw(NUMBERS), draw(NUMBERS)),
        method=draw(TEXT),
        launches=tuple(launches),
        warmups=tuple(draw(st.lists(NUMBERS, max_size=2))),
    )


@st.composite
def kernels_of_a_result(
    draw: st.DrawFn,
) -> tuple[tuple[Kernel, ...], tuple[KernelSource, ...]]:
    """Return kernels, and the generated codes of them, each once."""
    kernels = []
    sources = {}
    for kernel in draw(st.lists(KERNELS, max_size=3)):
        source = draw(st.none() | SOURCES)
        kernels.append(replace(kernel, source_hash="" if source is None else source.hash))
        if source is not None:
            sources[source.hash] = source
    return tuple(kernels), tuple(sources.values())


@st.composite
def results(
    draw: st.DrawFn, *, result_id: str | None = None, run_id: str | None = None
) -> CaseResult:
    """Return a result; only outcome ok has measurements, and these are in the order of metrics."""
    outcome = draw(st.sampled_from(Outcome))
    metrics = sorted(draw(st.sets(NAMES, max_size=3))) if outcome is Outcome.OK else []
    kernels, sources = draw(kernels_of_a_result())
    return CaseResult(
        id=result_id or draw(NAMES),
        run_id=run_id or draw(NAMES),
        case=draw(CASES),
        outcome=outcome,
        started_at=draw(TIMES),
        finished_at=draw(TIMES),
        reason=draw(TEXT),
        effective_mode=draw(NAMES),
        warnings=tuple(draw(st.lists(WARNINGS, max_size=2))),
        measurements=tuple(draw(measurements(metric=metric)) for metric in metrics),
        kernels=kernels,
        sources=sources,
        details=draw(JSON_OBJECTS),
        log_tail=draw(TEXT),
    )


def runs(*, run_id: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[Run]:
    return st.builds(
        Run,
        id=run_id,
        started_at=TIMES,
        suite=NAMES,
        toolchain=NAMES,
        revision=TEXT,
        machine=NAMES,
        environment=JSON_OBJECTS,
        fingerprint=NAMES,
        plan=st.lists(CASES, max_size=3).map(tuple),
        state=st.sampled_from(RunState),
        finished_at=st.none() | TIMES,
        trigger=NAMES,
        is_synthetic=st.just(False),
    )


DOCUMENTS = st.builds(RunDocument, run=runs(), results=st.lists(results(), max_size=2).map(tuple))
ALERTS = st.builds(
    Alert,
    id=NAMES,
    series_key=NAMES,
    kind=st.sampled_from(["step", "outcome", "vanished"]),
    state=st.sampled_from(AlertState),
    verdict=st.sampled_from(Verdict),
    case=CASES,
    metric=NAMES,
    unit=NAMES,
    machine=NAMES,
    toolchain=NAMES,
    fingerprint=NAMES,
    first_bad=SIGHTINGS,
    last_seen=TIMES,
    last_good=st.none() | SIGHTINGS,
    baseline=st.none() | NUMBERS,
    candidate=st.none() | NUMBERS,
    change_pct=st.none() | NUMBERS,
    interval_pct=st.none() | st.tuples(NUMBERS, NUMBERS),
    is_significant=st.booleans(),
    is_relevant=st.booleans(),
    is_confirmed=st.none() | st.booleans(),
    cause_kind=NAMES,
    cause_text=TEXT,
    event_id=TEXT,
    owner=LINES,
    muted_until=st.none() | TIMES,
    note=LINES,
    confirmation=st.none() | JSON_OBJECTS,
    environment_diff=st.none() | JSON_OBJECTS,
    bisection=st.none() | JSON_OBJECTS,
)
CHANGES = st.builds(
    AlertChange,
    id=NAMES,
    alert_id=NAMES,
    pattern=TEXT,
    at=TIMES,
    by=LINES,
    field=st.sampled_from(ChangedField),
    old=LINES,
    new=LINES,
    why=LINES,
)
SETTINGS = st.builds(
    SeriesSettings,
    pattern=NAMES,
    floor=st.none() | NUMBERS,
    muted_until=st.none() | TIMES,
    owner=LINES,
    baseline_run_id=TEXT,
)

# Few values of each, so that kernels of two sides are often alike in some way.
_CODES = {
    f"code-{number}": f"def kernel():\n    x0 = tl.arange(0, XBLOCK)\n    {line}\n"
    for number, line in enumerate(("tmp0 = x0 + 1", "tmp0 = x0 * 2", "tl.store(x0)\n" * 9))
}
_OPERATORS = ((), ("aten.add",), ("aten.gelu",), ("aten.add", "aten.gelu"), ("aten.mul",))
_NODES = ((), ("a",), ("b",), ("a", "b"), ("c",))
_LIBRARIES = ("triton", "inductor-cpp", "cublas")
# One draw for a kernel is many times as fast as one for each field.
_SEEDS = st.integers(0, 400)


def _kernel_to_match(number: int) -> Kernel:
    """Return a kernel of a trace, whose properties follow from `number`."""
    chance = Random(number)
    operators, library = chance.choice(_OPERATORS), chance.choice(_LIBRARIES)
    label = "_".join(["fused", *(name.removeprefix("aten.") for name in operators)])
    count, fastest_us, more_us = (
        chance.randint(1, 3),
        chance.choice((0, 50, 80)),
        chance.choice((0, 1, 30)),
    )
    mean_s = 1e-6 * (fastest_us + more_us)
    return Kernel(
        name=f"{label}_{chance.randint(0, 3)}",
        label=label,
        kind=chance.choice(("fused", "gemm")),
        library=library,
        device="cuda:0",
        count=float(count),
        total_s=count * mean_s,
        mean_s=mean_s,
        min_s=1e-6 * fastest_us,
        share=0.1,
        operators=operators,
        module=chance.choice(("", "layers.0", "layers.0.mlp")),
        shapes=chance.choice(("", "[8, 16]")),
        source_hash="" if library == "cublas" else chance.choice(("", *_CODES)),
        config={"num_warps": chance.choice((4, 8))} if library == "triton" else {},
        origins=tuple(Origin(node=node) for node in chance.choice(_NODES)),
    )


def kernel_side(numbers: list[int], latency_us: int | None) -> KernelSide:
    """Return a side with these kernels, each made from a number, and this latency."""
    chance = Random(-1 if latency_us is None else latency_us)
    parts = {name: 1e-6 * chance.randint(0, 100) for name in ("gemm", "idle", "python")}
    profile = Profile(num_iterations=3, iteration_s=1e-6, latency_s=None, components=parts)
    return KernelSide(
        kernels=tuple(map(_kernel_to_match, numbers)),
        sources=_CODES,
        profile=chance.choice((None, profile)),
        latency_s=None if latency_us is None else 1e-6 * latency_us,
    )


# One side of a kernel diff.
KERNEL_SIDES = st.builds(
    kernel_side, st.lists(_SEEDS, max_size=8), st.none() | st.integers(0, 1000)
)
