"""Mutated files: each is read, or refused with an error of ours; no other exception escapes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.results import RunDocument
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.errors import ConfigError, ImportFailed, TraceError
from compile_hud.runner.files.json_files import read_documents, read_json
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.history import HistoryBuilder, MissingValuePolicy
from compile_hud.runner.interop.importers.importer import READERS, find_format
from compile_hud.runner.interop.importers.nsight import read_counters
from compile_hud.runner.interop.importers.series_units import SeriesUnits
from compile_hud.runner.persistence.spool import SpoolEntry
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import read_kernels
from tests.cli.imports.test_nsight import DETAILS, RAW, SUMMARY
from tests.support.builders import (
    START,
    make_document,
    make_kernel,
    make_result,
    make_run,
)
from tests.support.records.traces import annotation, launch, on_gpu, operator, span
from tests.support.records.v3_records import make_record

pytestmark = pytest.mark.nightly
# Seven kinds of files: 21,000 inputs in all.
NUM_INPUTS = 3_000
OURS = (RecordError, ImportFailed, ConfigError, TraceError)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, "", "eager", "\x00", "\ud800", "9" * 400, "1e999", "nan", "\u202e", "a__b"),
    *(0, -1, 2**63, 10**400, 1e-320, -1e308, 1e99, 1.5, float("inf"), float("nan")),
    *([], {}, [[[]]], {"a": {"b": []}}, [1e-320, 1e308], "2026-01-01T00:00:00+00:00"),
)
CSV = (
    "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio\n"
    "cuda,T5Small,16,1.5,10.0,31.5,0.9\ncuda,XLNet,8,0.0,0,0,0\n"
)
TOML = """
[run]
launches = 3
[server]
host = "127.0.0.1"
port = 8501
url = "https://hud.example.org"
[schedules.nightly]
cron = "30 2 * * *"
suite = "nightly"
[models.mine]
build = "models.py:build"
"""


def nodes(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a JSON document with each of its keys."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, dict | list):
            yield from nodes(value)


def mutated(document: Any, chance: random.Random) -> Any:
    """Return a copy with one to three values replaced, removed, repeated or nested deeply."""
    changed = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(list(nodes(changed)))
        act = chance.randrange(6)
        if act == 0:
            del container[key]
        elif act == 1 and isinstance(container, list):
            container.extend([container[key]] * chance.randint(1, 3))
        elif act == 2:
            deep: Any = container[key]
            for _ in range(chance.choice([5, 90, 101, 200])):
                deep = [deep]
            container[key] = deep
        else:
            container[key] = copy.deepcopy(chance.choice(ODD_VALUES))
        if not isinstance(changed, dict | list) or not changed:
            return changed
    return changed


def cut(text: str, chance: random.Random) -> bytes:
    """Return the bytes of `text` with some of them removed, repeated or replaced."""
    content = bytearray(text.encode())
    for _ in range(chance.randint(1, 4)):
        if not content:
            break
        start = chance.randrange(len(content))
        end = start + chance.randint(1, 12)
        part = bytes(content[start:end])
        odd = str(chance.choice(ODD_VALUES)).encode("utf-8", "replace")
        content[start:end] = chance.choice([b"", part * 3, odd, bytes([chance.randrange(256)])])
    return bytes(content)


def read_result(path: Path) -> None:
    for document in read_documents(path):
        assert RunDocument.from_json(document.to_json()) == document


def read_spooled(path: Path) -> None:
    entry = SpoolEntry.from_json(read_json(path))
    assert SpoolEntry.from_json(entry.to_json()) == entry


def read_history(path: Path) -> None:
    reader = READERS[find_format(path)](MissingValuePolicy())
    history = HistoryBuilder(
        untimed_at=START, has_exact_time=False, units=SeriesUnits(lambda _metric: {})
    )
    for row in reader.rows(Source(path)):
        history.add(row)
    for document in history.documents():
        # What an import stores could come back as a result file.
        assert RunDocument.from_json(json.loads(json.dumps(document.to_json()))) == document


def read_trace(path: Path) -> None:
    report = read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})
    for kernel in report.kernels:
        assert Kernel.from_json(json.loads(json.dumps(kernel.to_json()))) == kernel


def read_settings(path: Path) -> None:
    parse_config(path.read_bytes().decode("utf-8", "replace"), path=None, env={})


RUN = make_run()
RESULT = make_result(run=RUN, kernels=[make_kernel()])
DOCUMENT = make_document(RUN, results=[RESULT]).to_json()
ENTRY = SpoolEntry(spool_id="0-a", run=RUN, result=RESULT).to_json()
EVENTS = [
    annotation("hud/iteration", 0, 100),
    span("nn.Module: Net_0", 0, 60, category="python_function"),
    span("net.py(7): forward", 0, 50, category="python_function"),
    operator("aten::mm", 1, 40, dims=[[4, 8], [8, 16]], **{"Sequence number": 5}),
    span("autograd::engine::evaluate_function: Mm", 50, 60, **{"Sequence number": 5}),
    operator("aten::mul", 70, 80, **{"Module Hierarchy": "net", "Call stack": "net.py(9): f;"}),
    launch(3, 5),
    on_gpu("gemm", 10, 30, correlation=3, bytes=4096),
    on_gpu("Memcpy DtoD", 31, 33, correlation=4, category="gpu_memcpy", bytes=1024),
]
RECORDS = [make_record(), make_record("speedup", [1.5, 1.6]), make_record("accuracy", "pass")]


def write_mutated(kind: str, folder: Path, chance: random.Random) -> tuple[Path, str]:
    """Write one mutated file of a kind; return its path, and the text that made it."""
    documents = {"result": DOCUMENT, "spool": ENTRY, "history": RECORDS, "trace": EVENTS}
    if kind in documents:
        document = documents[kind]
        path = folder / "input.json"
        text = json.dumps(mutated(document, chance))
        path.write_bytes(cut(text, chance) if chance.random() < 0.1 else text.encode())
        return path, text
    texts = {"csv": [CSV], "settings": [TOML], "counters": [SUMMARY, RAW, DETAILS]}
    path = folder / ("input.toml" if kind == "settings" else "input.csv")
    content = cut(chance.choice(texts[kind]), chance)
    path.write_bytes(content)
    return path, repr(content)


READ: dict[str, Callable[[Path], object]] = {
    "result": read_result,
    "spool": read_spooled,
    "history": read_history,
    "csv": read_history,
    "counters": read_counters,
    "trace": read_trace,
    "settings": read_settings,
}


@pytest.mark.parametrize("kind", READ)
def test_a_mutated_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    num_refused = 0
    for number in range(NUM_INPUTS):
        path, text = write_mutated(kind, tmp_path, chance)
        try:
            READ[kind](path)
        except OURS:
            num_refused += 1
        except Exception as error:
            raise AssertionError(f"input {number} of {kind}: {text}") from error
    assert 0 < num_refused < NUM_INPUTS
