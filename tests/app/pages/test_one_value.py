"""One measurement has one value: every surface has the same median with the same interval."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from compile_hud.app.data.series import load_series_page
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.views.compare.data import _compare_page
from compile_hud.app.views.compare.tables import compared_csv
from compile_hud.app.views.runs.data import load_run_page
from compile_hud.app.views.series.markdown import series_csv
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.records.results import Measurement, RunDocument
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.format import quantity
from tests.support.builders import START, make_case, make_measurement, make_result, make_run
from tests.support.examples import examples
from tests.support.terminal import Terminal

# A value with its 95 % interval, both None where a surface shows the value alone.
Value = tuple[float, float | None, float | None]
# Values by run and metric.
Values = dict[tuple[str, str], Value]
Surface = Callable[[Terminal], Values]

RUNS = ("run-1", "run-2")
CASE = make_case(mode="default")
# The times, their clock, and the machine's speed by which comparisons normalise them.
METRICS = (
    *("latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s", "pace_s"),
    *("speedup", "compile_cold_s", "peak_bytes", "graph_breaks"),
)


def measurements(*, seed: int, num_launches: int) -> tuple[Measurement, ...]:
    """Return measurements of one result, on a machine whose speed differs from seed to seed."""
    random = np.random.default_rng(seed)
    speed = random.uniform(0.7, 1.3)
    made = []
    for metric in METRICS:
        is_count = metric == "graph_breaks"
        launches = (1 if is_count else int(random.integers(3, 12)),) * num_launches
        samples = speed * random.lognormal(-7, 0.05, size=sum(launches))
        if is_count:
            samples = random.integers(0, 9, size=num_launches).astype(float)
        value = estimate(samples.tolist(), launches=launches)
        made.append(
            make_measurement(
                metric,
                samples=samples.tolist(),
                launches=launches,
                median=value.value,
                interval=(value.low, value.high),
            )
        )
    return tuple(made)


def from_show(terminal: Terminal) -> Values:
    return dict(
        item
        for run in RUNS
        for result in terminal.json("show", run, "--json")["results"]
        for item in _items(run, result["measurements"])
    )


def _items(
    run: str, measured: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[tuple[str, str], Value]]:
    for item in measured:
        low, high = item["interval"]
        yield (run, str(item["metric"])), (item["median"], low, high)


def from_export(terminal: Terminal) -> Values:
    rows = _rows(terminal.hud("export", "all", "--format", "csv").stdout)
    return {
        (row["run_id"], row["metric"]): (
            float(row["median"]),
            float(row["low"]),
            float(row["high"]),
        )
        for row in rows
    }


def from_comparison(terminal: Terminal) -> Values:
    # Its exit code says whether there is a regression.
    rows = json.loads(terminal.hud("compare", *RUNS, "--json").stdout)["rows"]
    return {
        (run, row["metric"]): (row[side], None, None)
        for row in rows
        for run, side in zip(RUNS, ("baseline", "candidate"), strict=True)
        if row["metric"] in METRICS
    }


def from_compare_page(terminal: Terminal) -> Values:
    page = _compare_page.read_at(_version(terminal), *RUNS, "", "")
    return {
        (run, row["metric"]): (float(row[side]), None, None)
        for row in _rows(compared_csv(page.rows, page=page))
        for run, side in zip(RUNS, ("baseline", "candidate"), strict=True)
        if row["metric"] in METRICS
    }


def from_series_pages(terminal: Terminal) -> Values:
    at = _version(terminal)
    pages = {
        metric: load_series_page.read_at(at, CASE.key, metric=metric, machine="", toolchain="")
        for metric in METRICS
    }
    return {
        (row["run"], metric): _value(row)
        for metric, page in pages.items()
        for row in _rows(series_csv(page, metric=metric))
    }


def from_run_pages(terminal: Terminal) -> Values:
    return {
        (run, item.metric): (item.median, item.low, item.high)
        for run in RUNS
        for result in load_run_page.read_at(_version(terminal), run).results
        for item in result.measurements.values()
    }


def from_overview(terminal: Terminal) -> Values:
    return {
        (cell.run_id, item.metric): (item.median, item.low, item.high)
        for cell in load_latest(terminal.store())
        for item in cell.summary.measurements.values()
    }


def _value(row: dict[str, str]) -> Value:
    return float(row["median"]), float(row["low"]), float(row["high"])


def _version(terminal: Terminal) -> StoreVersion:
    url = f"duckdb:///{terminal.folder / '.hud' / 'store.duckdb'}"
    return StoreVersion(url, terminal.store(), 1)


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


SURFACES: tuple[Surface, ...] = (
    from_show,
    from_export,
    from_comparison,
    from_compare_page,
    from_series_pages,
    from_run_pages,
    from_overview,
)


# An example takes a second, so that shrinking would take minutes; the seeds say enough.
@settings(max_examples=examples(4), derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), num_launches=st.integers(1, 4))
def test_every_surface_has_the_same_value_of_a_measurement(seed: int, num_launches: int) -> None:
    sides = [measurements(seed=seed + side, num_launches=num_launches) for side in (0, 1)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        terminal = Terminal(Path(folder))
        store = terminal.store()
        store.migrate()
        for number, (name, measured) in enumerate(zip(RUNS, sides, strict=True)):
            run = make_run(name, plan=(CASE,), started_at=START + timedelta(days=number))
            result = make_result(f"result-{number}", run=run, measurements=measured)
            with store.write() as connection:
                put_documents(
                    connection, [RunDocument(run=run, results=(result,))], at=run.started_at
                )
        expected = {
            (run, item.metric): (item.median, *item.interval)
            for run, measured in zip(RUNS, sides, strict=True)
            for item in measured
        }
        for surface in SURFACES:
            values = surface(terminal)
            assert values, surface.__name__
            for key, (value, low, high) in values.items():
                known = expected[key] if low is not None else (expected[key][0], None, None)
                assert (value, low, high) == known, (surface.__name__, key)
        text = terminal.hud("show", RUNS[0], CASE.key).stdout
        for item in sides[0]:
            assert quantity(item.median, unit=item.unit) in text, item.metric
