"""Stand-ins for slow or external things."""

from __future__ import annotations

import math
import os
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder, CompileLane
from compile_hud.runner.execution.launch_aggregation import combine
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import Message
from compile_hud.runner.protocol.graphs import CapturedCase, CapturedGraph
from compile_hud.runner.protocol.messages import LaunchReport, RawMetric
from compile_hud.runner.system.machine import ProgramOutput
from tests.support.builders import START, make_measurement, make_result

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


def make_captured_case(text: str = "", **values: Any) -> CapturedCase:
    """Return a case of one graph that does nothing, with `text` as a comment."""
    graph = CapturedGraph(code=f"    def forward(self):\n        return ()  # {text}", inputs=())
    fields = {
        "torch_version": FACTS["torch_version"],
        "graphs": (graph,),
        "options": "{'backend': 'inductor'}",
        "autocast": "None",
        "num_threads": 1,
    }
    return CapturedCase(**{**fields, **values})


class FakeClock:
    """A clock that only `advance` moves."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def make_catalog(*names: str, phases: tuple[str, ...] = ("inference",)) -> dict[str, ModelSpec]:
    """Return models by name, in the three sizes of the zoo."""
    size = SizeSpec(config={"hidden_size": 32}, num_samples=2, num_tokens=16)
    return {
        name: ModelSpec(
            name=name,
            family="fake",
            build=f"compile_hud.models_zoo.encoders.{name}",
            summary="Not real.",
            sizes=dict.fromkeys(("tiny", "small", "full"), size),
            phases=phases,
        )
        for name in names
    }


Draw = Callable[[CaseOrder, int], LaunchReport]


def draw_latencies(latency_s: float, *, launch_sd: float, seed: int, num_samples: int = 5) -> Draw:
    """Return launches with levels log-normally distributed about `latency_s`, on both clocks of a
    CPU.

    The wall clock shows 2 % more than the CPU time, and samples of a launch differ by 0.1 %.
    """
    generator = np.random.default_rng(seed)

    def draw(_order: CaseOrder, _number: int) -> LaunchReport:
        level_s = latency_s * math.exp(generator.normal(0, launch_sd))
        samples = level_s * np.exp(generator.normal(0, 0.001, num_samples))
        return LaunchReport(
            outcome=Outcome.OK,
            metrics={
                "latency_s": RawMetric(samples=tuple(1.02 * samples), method="wall"),
                "latency_cpu_s": RawMetric(samples=tuple(samples), method="CPU time"),
            },
        )

    return draw


class FakeSession:
    """A session of a FakeExecutor.

    Without a `draw` the case executes at its end, and launches are only counted.
    """

    def __init__(self, order: CaseOrder, *, executor: FakeExecutor) -> None:
        self._order = order
        self._executor = executor
        self._reports: list[LaunchReport] = []
        self._started_at = executor.clock()
        self.num_launches = 0
        self.is_closed = False

    @property
    def needs_launch(self) -> bool:
        """Return whether the settings request another launch."""
        return self.num_launches < self._order.settings.num_launches

    @property
    def has_time(self) -> bool:
        """Return whether the executor allows another launch of a case."""
        return self.num_launches < self._executor.most_launches

    def launch(self) -> LaunchReport:
        """Count the launch, and return the draw of the executor."""
        self.num_launches += 1
        self._executor.launched.append(self._order.case.key)
        draw = self._executor.draw
        number = self.num_launches - 1
        report = LaunchReport(outcome=Outcome.OK) if draw is None else draw(self._order, number)
        self._reports.append(report)
        return report

    def finish(self) -> CaseResult:
        """Return the result of the drawn launches, or that of `execute`."""
        if self._executor.draw is None:
            return self._executor.execute(self._order)
        result = combine(
            self._order,
            self._reports,
            result_id=uuid.uuid4().hex,
            started_at=self._started_at,
            finished_at=self._executor.clock(),
            log_tail="",
        )
        return self._executor.amend(self._order, result)

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


class FakeExecutor:
    """An executor in which the name of a model decides duration and outcome of its cases.

    `takes_3s` advances the clock by 3 s (other names by 10 s); `fails`, `times_out` and so on in
    `ENDINGS` give that outcome. `on_execute` is called in the middle of each case. Sessions take
    their launches from `draw`, if given.
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
        draw: Draw | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.facts = facts
        self.latency_s = latency_s
        self.on_execute = on_execute
        self.draw = draw
        # An amendment at the end of a session, as the local executor adds kernels.
        self.amend: Callable[[CaseOrder, CaseResult], CaseResult] = lambda _order, result: result
        self.make_lanes: Callable[[int, int], Sequence[CompileLane]] = lambda *_numbers: ()
        self.executed: list[str] = []
        self.launched: list[str] = []
        self.sessions: list[FakeSession] = []
        # The time of a case is up after so many launches.
        self.most_launches = 1000
        self.is_started = False
        self.is_open = False
        self.is_cancelled = False

    def start(self) -> None:
        """Record the call."""
        self.is_started = True

    def open(self) -> Mapping[str, Any]:
        self.is_open = True
        return self.facts

    def open_lanes(self, number: int, *, cores_each: int) -> Sequence[CompileLane]:
        """Return lanes of `make_lanes`, none by default."""
        return self.make_lanes(number, cores_each)

    def graphs(self, order: CaseOrder) -> CapturedCase:
        """Return a graph that names its passes, or raise ExecutorError for the model `fails`."""
        if order.case.model == "fails":
            raise ExecutorError(f"no script of {order.case.key}: it broke")
        return make_captured_case(f"{order.workload.config}")

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return a result with samples about `latency_s`; a cancelled case has failed.

        With a `draw` it is a session from end to end.
        """
        if self.draw is not None:
            session = self.begin(order)
            while session.needs_launch:
                session.launch()
            return session.finish()
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
        session = FakeSession(order, executor=self)
        self.sessions.append(session)
        return session

    def cancel(self) -> None:
        """Record the call."""
        self.is_cancelled = True

    def close(self) -> None:
        """Record the call."""
        self.is_open = False


class FakeKernel:
    """A LinuxPerf whose groups return scripted readings.

    `readings` are (enabled ns, running ns, values); `refused` maps an event's number to an errno.
    """

    def __init__(
        self,
        readings: Iterable[tuple[int, int, tuple[int, ...]]] = (),
        *,
        refused: Mapping[int, int] | None = None,
    ) -> None:
        self._readings = iter(readings)
        self._refused = refused or {}
        self.leaders: list[int] = []
        self.enabled: list[int] = []
        self.closed: list[int] = []

    def open(self, attributes: bytes, *, leader: int) -> int:
        """Return the next number from 3 up, or refuse."""
        (event,) = struct.unpack_from("=Q", attributes, 8)
        if event in self._refused:
            raise OSError(self._refused[event], os.strerror(self._refused[event]))
        self.leaders.append(leader)
        return 2 + len(self.leaders)

    def enable(self, leader: int) -> None:
        """Record the group that counts."""
        self.enabled.append(leader)

    def read(self, leader: int, size: int) -> bytes:
        """Return the next reading, of an inherited event or of a group."""
        del leader
        enabled_ns, running_ns, values = next(self._readings)
        if size == struct.calcsize("=3Q"):
            return struct.pack("=3Q", *values, enabled_ns, running_ns)
        packed = struct.pack(f"={3 + len(values)}Q", len(values), enabled_ns, running_ns, *values)
        assert len(packed) == size
        return packed

    def close(self, counter: int) -> None:
        """Record the closed descriptors."""
        self.closed.append(counter)


class FakeMachine:
    """A machine with these files, whose programs reply by a word of their command.

    `commands` records the calls of programs; a program without a reply is not installed.
    """

    def __init__(
        self,
        files: Mapping[str, str] | None = None,
        *,
        replies: Mapping[str, ProgramOutput] | None = None,
    ) -> None:
        self.files = dict(files or {})
        self.replies = dict(replies or {})
        self.commands: list[tuple[str, ...]] = []

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        return self.files.get(path)

    def find(self, pattern: str) -> list[str]:
        """Return the files that match."""
        return sorted(path for path in self.files if fnmatchcase(path, pattern))

    def ask(self, *command: str) -> ProgramOutput:
        """Return the reply to the first word that is in `command`."""
        self.commands.append(command)
        for word, reply in self.replies.items():
            if any(word in argument for argument in command):
                return reply
        return ProgramOutput(problem=f"{command[0]}: No such file or directory")


class FakeReceiver:
    """Takes messages and gives `answers` in turn, then success; `choke` answers by the content."""

    def __init__(
        self, answers: Iterable[Response] = (), *, choke: Mapping[str, Response] | None = None
    ) -> None:
        self.answers = list(answers)
        self.messages: list[Message] = []
        self._choke = choke or {}

    def send(self, message: Message) -> Response:
        """Record the message."""
        self.messages.append(message)
        for item in message.items:
            if item.notification.id in self._choke:
                return self._choke[item.notification.id]
        return self.answers.pop(0) if self.answers else Response(kind=ResponseKind.SENT)

    def keys(self) -> list[str]:
        """Return the idempotency keys of the messages."""
        return [message.id for message in self.messages]
