"""`python -m runner` is `hud`."""

from __future__ import annotations

from runner.cli.entry import main

main()
