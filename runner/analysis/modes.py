"""Whether nights are a step or a mode that came new: slow in all of them, or in some.

Method: the likelihood of a mixture. A mode as far away as the step is slow in an unknown share of
the nights, each by itself. The share has Beta(1, 2) for a prior, 2 (1 - share): a third on average.
What r nights of evidence for the step say for the mode is the mean of share e^r + (1 - share),
multiplied over the nights: three slow nights and nothing else are ten times likelier as a step, and
a night back at the old level costs the mode little and the step a lot.
Both begin where they are likeliest: on a night of the excursion that is looked at, which an outlier
may have opened, or before it, where an outlier the other way interrupted a step.
Assumptions: nights are independent but for what the evidence for the step knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Shares of the nights in which a mode may be slow, and how likely each is.
SHARES = (np.arange(40) + 0.5) / 40
_LOG_CHANCES = np.log(2 * (1 - SHARES) / SHARES.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanations:
    """Log likelihood ratios over no change, of a step and of a mode that came new."""

    step: float
    mode: float


def explanations(ratios: np.ndarray, *, earlier: np.ndarray, min_nights: int) -> Explanations:
    """Return how likely a step and a new mode are, each from its likeliest first night on.

    `ratios` are those of the nights of an excursion for a step, of which the last `min_nights` are
    taken to belong to both, and `earlier` those of the nights before, all in order of time.
    """
    # The last night first.
    nights = np.concatenate([earlier, ratios])[::-1]
    of_shares = np.log1p(SHARES[:, None] * np.expm1(nights)).cumsum(axis=1)[:, min_nights - 1 :]
    of_modes = np.logaddexp.reduce(_LOG_CHANCES[:, None] + of_shares, axis=0)
    of_steps = nights.cumsum()[min_nights - 1 :]
    return Explanations(step=float(of_steps.max()), mode=float(of_modes.max()))
