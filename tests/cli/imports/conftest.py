"""The terminal of the tests of imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.records.v3_records import DAY_S
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    # After every night that is imported.
    terminal.clock.advance(60 * DAY_S)
    return terminal
