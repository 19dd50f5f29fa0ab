"""The number of examples of a property test."""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "hud")
# `make test-nightly` multiplies the examples by this.
NIGHTLY_FACTOR = 10


def examples(num: int) -> int:
    """Return the number of examples of a slow property, `num` by day."""
    return num * NIGHTLY_FACTOR if PROFILE == "nightly" else num
