"""The units of imported series: a series has one, whatever its records state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from compile_hud.runner.interop.importers.vocabulary import (
    ImportedMetric,
    clean_name,
    common_factor,
)

# The unit of a metric whose record states none.
NO_UNIT = "1"


@dataclass(frozen=True, slots=True, order=True)
class UnitChange:
    """A metric whose records state another unit than its series has; the name that they got."""

    metric: str
    series_unit: str
    stated_unit: str
    imported_as: str

    @property
    def text(self) -> str:
        """Return the change with its consequence."""
        units = f"the unit of {self.metric} changes from {self.series_unit} to {self.stated_unit}"
        if self.imported_as == self.metric:
            return f"{units}: values are in {self.series_unit}"
        return f"{units}: a series of its own, {self.imported_as}"


@dataclass(slots=True)
class SeriesUnits:
    """The unit of each series of a metric that is none of ours, by case.

    `load` returns the units in the store of one metric, by case key.
    """

    load: Callable[[str], Mapping[str, str]]
    changes: set[UnitChange] = field(default_factory=set)
    _units: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, dict[str, str]]:
        """Return the units of all series of the metrics that were aligned, by metric and case."""
        return self._units

    def aligned(self, case_key: str, metric: ImportedMetric) -> ImportedMetric:
        """Return `metric` in the unit of its series; under another name if it cannot be scaled."""
        if metric.is_known:
            return metric
        if metric.name not in self._units:
            self._units[metric.name] = dict(self.load(metric.name))
        unit = self._units[metric.name].setdefault(case_key, metric.unit)
        if unit == metric.unit:
            return metric
        if NO_UNIT in (unit, metric.unit):
            # A record without a unit is no statement that it changed.
            return replace(metric, unit=unit)
        factor = common_factor(metric.unit, unit)
        if factor is None:
            other = replace(metric, name=clean_name(f"{metric.name} ({metric.unit})"))
        else:
            other = replace(metric, unit=unit, scale=metric.scale * factor)
        self.changes.add(UnitChange(metric.name, unit, metric.unit, other.name))
        return other
