"""`python -m compile_hud.runner` is `hud`."""

from __future__ import annotations

from compile_hud.runner.cli.entry import main

main()
