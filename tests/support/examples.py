"""How many examples a property test draws."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "hud")
# `make test-nightly` draws this many times as many.
NIGHTLY_FACTOR = 10


def examples(num: int) -> int:
    """Return the number of examples of a slow property, which are `num` by day."""
    return num * NIGHTLY_FACTOR if PROFILE == "nightly" else num
