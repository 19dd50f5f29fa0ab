"""Whether nights are a mode that came new: slow in some nights, and not in all as after a step.

Method: the likelihood of a mixture. A mode as far away as a step is slow in an unknown share of the
nights, each by itself (a finite mixture: McLachlan and Peel, 2000, whose share is integrated out).
The share has Beta(1, 3) for a prior, 3 (1 - share)^2: a quarter on average, since what is slow in
most nights is the level itself.
What r nights of evidence for the step say for the mode is the mean of share e^r + (1 - share),
multiplied over the nights. As for a step, all first nights count: a mode may have come on any
night of the excursion that is looked at, or before it.
Assumptions: nights are independent but for what the evidence for the step knows.
"""

from __future__ import annotations

import numpy as np

# Shares of the nights in which a mode may be slow, and how likely each is.
SHARES = (np.arange(12) + 0.5) / 12
_LOG_CHANCES = np.log((1 - SHARES) ** 2 / ((1 - SHARES) ** 2).sum())


def log_mode(ratios: np.ndarray, *, earlier: np.ndarray, min_nights: int) -> float:
    """Return the log likelihood ratio over no change of a mode that came new.

    `ratios` are those of the nights of an excursion for a step, one row a size, all of which are as
    likely. The last `min_nights` are taken to belong to the mode. `earlier` are those of the nights
    before, of the same sizes. All are in order of time.
    """
    # The last night first.
    nights = np.concatenate([earlier, ratios], axis=1)[:, ::-1]
    of_shares = np.log1p(SHARES[:, None, None] * np.expm1(nights)).cumsum(axis=2)
    logs = _LOG_CHANCES[:, None, None] + of_shares[:, :, min_nights - 1 :]
    most = float(logs.max())
    return most + float(np.log(np.exp(logs - most).sum() / ratios.shape[0]))
