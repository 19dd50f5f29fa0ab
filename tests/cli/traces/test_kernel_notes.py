"""The worker's notes on kernels, which accompany the trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Origin
from compile_hud.runner.protocol.kernel_notes import KernelNote, KernelNotes
from compile_hud.runner.traces.profile import load_kernel_notes
from tests.support.strategies import AMOUNTS, TEXT

ORIGINS = st.builds(Origin, node=TEXT, target=TEXT, module=TEXT)
NOTES = st.builds(
    KernelNotes,
    device=st.sampled_from(["", "cpu", "cuda"]),
    num_iterations=st.integers(0, 100),
    kernels=st.dictionaries(
        TEXT,
        st.builds(
            KernelNote,
            language=st.sampled_from(["triton", "cpp"]),
            source=TEXT,
            num_bytes=st.none() | AMOUNTS,
            flops=st.none() | AMOUNTS,
            dtype=TEXT,
            origins=st.lists(ORIGINS, max_size=2).map(tuple),
            arguments=st.lists(st.integers() | st.just({"same_as": 0}), max_size=2).map(tuple),
        ),
        max_size=3,
    ),
)


@given(NOTES)
def test_notes_survive_json(notes: KernelNotes) -> None:
    assert KernelNotes.from_json(json.loads(json.dumps(notes.to_json()))) == notes


def test_empty_notes_are_those_of_a_foreign_trace() -> None:
    assert KernelNotes.from_json({"schema_version": 1}) == KernelNotes()


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 9},
        {"device": "tpu"},
        {"num_iterations": -1},
        {"kernels": []},
        {"kernels": {"a": {"language": "c", "source": ""}}},
        {"kernels": {"a": {"language": "cpp"}}},
        {"kernels": {"a": {"language": "cpp", "source": "", "num_bytes": -1}}},
        {"kernels": {"a": {"language": "cpp", "source": "", "flops": "3"}}},
    ],
)
def test_damaged_notes_name_the_field(change: dict[str, Any], words: SnapshotAssertion) -> None:
    with pytest.raises(RecordError) as caught:
        KernelNotes.from_json({"schema_version": 1} | change)
    assert str(caught.value) == words


def test_notes_are_read_from_a_file(tmp_path: Path, words: SnapshotAssertion) -> None:
    path = tmp_path / "notes.json"
    path.write_text('{"schema_version": 1, "device": "cpu"}')
    assert load_kernel_notes(path) == KernelNotes(device="cpu")
    path.write_text('{"schema_version": 1, "device": ')
    with pytest.raises(RecordError) as caught:
        load_kernel_notes(path)
    assert str(caught.value) == words
