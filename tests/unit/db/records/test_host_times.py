"""The host's time between compiled graphs, from the details of a result."""

from __future__ import annotations

from typing import Any

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.records.graphs.host_times import (
    HOST_TIMES,
    FallbackCalls,
    HostTimes,
    host_times_of,
)

CALLS = {"operator": "aten::sort", "is_complex": False, "count": 2, "samples_s": [0.1, 0.3, 0.2]}


def test_times_are_medians_of_their_samples() -> None:
    document = {
        "clock": "thread_time",
        "num_gaps": 3,
        "gaps_s": [0.5, 0.1, 0.2],
        "gap_operators_s": [0.05],
        "gap_guards_s": [0.01, 0.03],
        "fallbacks": [CALLS],
    }
    assert host_times_of({HOST_TIMES: document}) == HostTimes(
        num_gaps=3,
        gap_s=0.2,
        gap_operators_s=0.05,
        gap_guards_s=0.02,
        fallbacks=(FallbackCalls(operator="aten::sort", is_complex=False, count=2, total_s=0.2),),
    )


def test_a_result_without_times_has_none() -> None:
    assert host_times_of({}) is None
    without_trace = host_times_of({HOST_TIMES: {"num_gaps": 0, "gaps_s": []}})
    assert without_trace == HostTimes(num_gaps=0, gap_s=0.0)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"num_gaps": "a"}, "num_gaps"),
        ({"num_gaps": 1, "gaps_s": [0.1, -1]}, "gaps_s"),
        ({"num_gaps": 1, "gaps_s": 3}, "gaps_s"),
        ({"num_gaps": 1, "gaps_s": ["a"]}, "gaps_s"),
        ({"num_gaps": 1, "fallbacks": [{"operator": 3}]}, "operator"),
    ],
)
def test_a_damaged_document_is_an_error_with_its_field(document: Any, field: str) -> None:
    with pytest.raises(RecordError) as caught:
        host_times_of({HOST_TIMES: document})
    assert caught.value.parameters["field"] == field
