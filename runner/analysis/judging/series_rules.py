"""User-defined rules of single series for the judge: floors and new baselines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compile_hud.db.records.alerts import VANISHED, Alert, AlertState
from compile_hud.db.records.triage import SeriesSettings, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRule:
    """The rule of one series.

    `floor` is the least relevant change as a fraction, None for the metric's own. A new baseline
    starts at each of `baseline_run_ids`: nothing is compared across it.
    """

    floor: float | None = None
    baseline_run_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRules:
    """The rules of all series; `expected` has the first runs of accepted levels by series key."""

    settings: Sequence[SeriesSettings] = ()
    expected: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def rule_of(self, series_key: str) -> SeriesRule:
        """Return the rule of one series."""
        settings = settings_of(series_key, settings=self.settings)
        runs = self.expected.get(series_key, frozenset())
        if settings.baseline_run_id:
            runs |= {settings.baseline_run_id}
        return SeriesRule(floor=settings.floor, baseline_run_ids=runs)


def series_rules(alerts: Iterable[Alert], *, settings: Sequence[SeriesSettings]) -> SeriesRules:
    """Return the rules that follow from `settings` and from the expected alerts."""
    expected: dict[str, set[str]] = defaultdict(set)
    for alert in alerts:
        # A user who accepts that a metric is missing accepts no level of it.
        if alert.state is AlertState.EXPECTED and alert.kind != VANISHED:
            expected[alert.series_key].add(alert.first_bad.run_id)
    return SeriesRules(
        settings=settings, expected={key: frozenset(runs) for key, runs in expected.items()}
    )
