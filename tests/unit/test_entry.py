"""Ctrl-C while the command line is being loaded."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from runner.entry import EXIT_INTERRUPTED, main


class Loading(ModuleType):
    """A module that Ctrl-C ends while it is imported from."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt(name)


def test_ctrl_c_while_loading_ends_with_its_code_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "runner.cli", Loading("runner.cli"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_INTERRUPTED == 130
