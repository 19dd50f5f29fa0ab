"""Measurements that follow from others of the same case result. Pure; knows no process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from db.records import Measurement


def derive(
    measured: Mapping[str, Measurement], *, details: Mapping[str, Any]
) -> tuple[Measurement, ...]:
    """Return what follows from `measured`, by metric name, and the details of the case result."""
    del measured, details
    return ()
