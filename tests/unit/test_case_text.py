from __future__ import annotations

import pytest

from runner.commands.case_text import measurement_rows
from tests.builders import make_measurement


@pytest.mark.parametrize(
    ("samples", "interval", "text"),
    [
        ((0.01, 0.02, 0.03), (0.01, 0.03), "10.0 ms .. 30.0 ms"),
        ((0.01, 0.01), (0.01, 0.01), "10.0 ms .. 10.0 ms"),
        ((0.01,), (0.01, 0.01), ""),
        # What follows from several measurements is one number with an interval.
        ((0.02,), (0.01, 0.03), "10.0 ms .. 30.0 ms"),
    ],
)
def test_a_number_stands_with_its_interval_where_it_has_one(
    samples: tuple[float, ...], interval: tuple[float, float], text: str
) -> None:
    (row,) = measurement_rows([make_measurement(samples=samples, interval=interval)])
    assert row[2] == text
