"""`python -m runner` is `hud`."""

from __future__ import annotations

from runner.cli import main

main(prog_name="hud")
