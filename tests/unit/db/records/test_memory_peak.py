"""The holders of memory: their rows, and their JSON form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.errors import RecordError
from compile_hud.db.records.memory.peak import (
    MAX_HOLDERS,
    MEMORY_PEAK,
    HolderKind,
    MemoryHolder,
    PeakHolders,
    memory_peak_of,
)

HOLDERS = st.builds(
    MemoryHolder,
    kind=st.sampled_from([HolderKind.BEFORE, HolderKind.OPERATOR]),
    operator=st.text(min_size=1, max_size=3),
    module=st.text(max_size=2),
    line=st.text(max_size=4),
    num_bytes=st.integers(0, 2**50),
    count=st.integers(1, 9),
)


@given(st.lists(HOLDERS, max_size=40))
def test_no_byte_is_lost_and_json_returns_the_same(holders: list[MemoryHolder]) -> None:
    peak = PeakHolders.of(holders)
    assert peak.num_bytes == sum(item.num_bytes for item in holders)
    assert sum(item.kind is HolderKind.OPERATOR for item in peak.holders) <= MAX_HOLDERS
    document = json.loads(json.dumps(peak.to_json()))
    assert memory_peak_of({MEMORY_PEAK: document}) == peak


def test_holders_of_one_operator_and_module_are_one_row() -> None:
    first, second = (
        MemoryHolder(
            kind=HolderKind.OPERATOR,
            operator="aten::mm",
            module="a",
            line=line,
            num_bytes=5,
            count=1,
        )
        for line in ("", "net.py:3")
    )
    (row,) = PeakHolders.of([first, second]).holders
    assert (row.num_bytes, row.count, row.line) == (10, 2, "net.py:3")


def test_a_result_without_the_document_has_no_peak() -> None:
    assert memory_peak_of({}) is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bytes": -1}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"count": 1.5}, "count"),
        ({"kind": "theirs"}, "kind"),
        ({"operator": 3}, "operator"),
    ],
)
def test_a_damaged_row_names_its_field(changes: dict[str, Any], field: str) -> None:
    row = {"kind": "operator", "operator": "aten::mm", "bytes": 1, "count": 1, **changes}
    with pytest.raises(RecordError, match=field):
        memory_peak_of({MEMORY_PEAK: {"rows": [row]}})
