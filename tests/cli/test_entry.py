"""Ctrl-C while the command line is being loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compile_hud.runner.cli.entry import main
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED

# What is imported from gets a signal meanwhile, and swallows whatever that raises.
SCRIPT = """
import signal, sys, types
from compile_hud.runner.cli.entry import main

class Loading(types.ModuleType):
    def __getattr__(self, name):
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException as error:
            print("swallowed", repr(error))
        return lambda **_: print("loaded", signal.getsignal(signal.SIGINT).__name__)

sys.modules["compile_hud.runner.cli.main"] = Loading("compile_hud.runner.cli.main")
main()
"""


def test_ctrl_c_while_loading_ends_at_once_whatever_libraries_make_of_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        # Here Ctrl-C may be ignored, as for whatever a shell starts in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (EXIT_INTERRUPTED, "", "")
    assert EXIT_INTERRUPTED == 130


def test_ctrl_c_is_handled_afterwards_as_it_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    handlers = []
    monkeypatch.setattr(
        "compile_hud.runner.cli.main.main",
        lambda **_: handlers.append(signal.getsignal(signal.SIGINT)),
    )
    main()
    assert handlers == [before]
