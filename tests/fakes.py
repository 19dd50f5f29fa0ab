"""Stand-ins for what is slow or from outside."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from db.records import CaseResult, Outcome
from models_zoo.spec import ModelSpec, SizeSpec
from runner.executor_api import CaseOrder
from runner.protocol import LaunchReport
from tests.builders import START, make_measurement, make_result

FACTS: Mapping[str, Any] = {
    "torch_version": "2.13.0+cpu",
    "torch_git": "0123456789abcdef",
    "python_version": "3.11.7",
    "python_minor": "3.11",
    "device_name": "Fake CPU",
    "cpu_model": "Fake CPU",
    "num_cpus": 2,
    "hostname": "box",
}


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.moment += timedelta(seconds=seconds)


def make_catalog(*names: str, phases: tuple[str, ...] = ("inference",)) -> dict[str, ModelSpec]:
    """Return models by name, in the three sizes of the zoo."""
    size = SizeSpec(config={"hidden_size": 32}, num_samples=2, num_tokens=16)
    return {
        name: ModelSpec(
            name=name,
            family="fake",
            build=f"models_zoo.{name}",
            summary="Not real.",
            sizes=dict.fromkeys(("tiny", "small", "full"), size),
            phases=phases,
        )
        for name in names
    }


class FakeSession:
    """A session of a FakeExecutor: the case happens at its end, the launches only count."""

    def __init__(self, order: CaseOrder, *, executor: FakeExecutor) -> None:
        self._order = order
        self._executor = executor
        self.num_launches = 0
        self.is_closed = False

    @property
    def needs_launch(self) -> bool:
        """Return whether the settings ask for another launch."""
        return self.num_launches < self._order.settings.num_launches

    def launch(self) -> LaunchReport:
        """Count it."""
        self.num_launches += 1
        return LaunchReport(outcome=Outcome.OK)

    def finish(self) -> CaseResult:
        """Return what `execute` returns."""
        return self._executor.execute(self._order)

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


class FakeExecutor:
    """An executor whose cases take, and end, as their model's name says.

    `takes_3s` advances the clock by 3 s (other names by 10 s); `fails`, `times_out` and so on in
    `ENDINGS` give that outcome. `on_execute` is called in the middle of each case.
    """

    ENDINGS: Mapping[str, Outcome] = {
        "fails": Outcome.FAILED,
        "times_out": Outcome.TIMEOUT,
        "is_inaccurate": Outcome.INACCURATE,
    }

    def __init__(
        self,
        *,
        clock: FakeClock | None = None,
        facts: Mapping[str, Any] = FACTS,
        latency_s: float = 0.010,
        on_execute: Callable[[CaseOrder], None] = lambda _order: None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.facts = facts
        self.latency_s = latency_s
        self.on_execute = on_execute
        self.executed: list[str] = []
        self.is_open = False
        self.is_cancelled = False

    def open(self) -> Mapping[str, Any]:
        """Return the facts."""
        self.is_open = True
        return self.facts

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return a result whose samples are around `latency_s`; a cancelled case has failed."""
        started_at = self.clock()
        self.on_execute(order)
        self.executed.append(order.case.key)
        duration = re.search(r"takes_(\d+)s", order.case.model)
        self.clock.advance(float(duration[1]) if duration else 10.0)
        outcome = self.ENDINGS.get(order.case.model, Outcome.OK)
        if self.is_cancelled:
            outcome = Outcome.FAILED
        samples = [self.latency_s * factor for factor in (0.99, 1.0, 1.01)]
        return make_result(
            uuid.uuid4().hex,
            run_id=order.run_id,
            case=order.case,
            outcome=outcome,
            measurements=None
            if outcome is not Outcome.OK
            else (make_measurement(samples=samples),),
            started_at=started_at,
            finished_at=self.clock(),
        )

    def begin(self, order: CaseOrder) -> FakeSession:
        """Return a session whose launches all give the same."""
        return FakeSession(order, executor=self)

    def cancel(self) -> None:
        """Remember it."""
        self.is_cancelled = True

    def close(self) -> None:
        """Remember it."""
        self.is_open = False
