"""`python -m runner` is `hud`."""

from __future__ import annotations

from runner.entry import main

main()
