"""Snapshots of isolations: their statistics are tested elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.words import replacing_numbers


@pytest.fixture
def words(snapshot: SnapshotAssertion, tmp_path: Path) -> SnapshotAssertion:
    """Return the snapshot of a surface's words, without decimal numbers."""
    return snapshot.with_defaults(matcher=replacing_numbers(tmp_path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
