"""A plan on the machines of a cluster, with a store and machines that are not real."""

from __future__ import annotations

import ctypes
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.jobs.live_log import LiveLog, LogLine
from compile_hud.db.jobs.queue import get_live_log
from compile_hud.db.queries.model_sources import load_code_diffs
from compile_hud.db.records.results import CaseResult, Outcome, RunDocument, RunState
from compile_hud.db.records.summaries import HEARTBEAT_TIMEOUT_S
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.cluster.api import Nodes, Reply, Setup, Slot, Status
from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS
from compile_hud.runner.cluster.coordinator import BACKOFF_S, NO_NODES_LIMIT_S, run_on_cluster
from compile_hud.runner.cluster.resume import check_is_silent, load_interrupted
from compile_hud.runner.errors import ExecutorError, ResumeError, RunInterrupted, ToolchainUnusable
from compile_hud.runner.events import RunStarted
from compile_hud.runner.execution.device_idle import SHARED
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, RunServices
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.planning.time_budget import Worth
from tests.support.builders import make_run
from tests.support.fake_cluster import SILENT, Behaviour, FakeCluster, measured
from tests.support.fakes import FACTS, make_catalog
from tests.support.runs.runs import REQUEST, RunSandbox, interrupt

NAMES = ("a", "b", "c", "d", "e", "f")
CATALOG = make_catalog(*NAMES)
PLAN = ResolvedRun(
    suite="mine",
    selection=Selection(models=("*",), modes=("eager",)),
    toolchain="current",
    device="cpu",
    settings=REQUEST.settings,
    machine="driver",
)


WITH_REFERENCES = replace(PLAN, has_references=True)


class ClusterSandbox(RunSandbox):
    """A Place whose runs are those of a cluster, without a store unless a test wants one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.store = None
        self.worths: dict[str, Worth] = {}
        self.catalog: Mapping[str, ModelSpec] = CATALOG

    def cluster(self, *machines: str, behave: Behaviour = measured) -> FakeCluster:
        """Return machines that keep the time of this place."""
        return FakeCluster(*machines, clock=self.clock, behave=behave)

    def run_on(
        self,
        cluster: FakeCluster,
        request: ResolvedRun = PLAN,
        *,
        earlier: Sequence[RunDocument] = (),
        machine: str | None = None,
    ) -> list[RunDocument]:
        """Execute one plan, or what is left of an earlier one; on `machine` alone if it says so."""
        writer = ResultWriter(
            self.store, spool=self.spool, notify=self.events.append, now=self.clock
        )
        context = RunContext(
            executors=(),
            writer=writer,
            catalog=self.catalog,
            lock_dir=self.lock_dir,
            notify=self.events.append,
            services=RunServices(
                load_document=self.load,
                worth=lambda node: self.worths.get(node.machine, Worth()),
                now=self.clock,
            ),
        )
        return run_on_cluster(
            request,
            nodes=Nodes(
                cluster=cluster,
                setup=Setup(device="cpu", num_threads=1, release="test"),
                trace_folder=self.folder / "spool",
                machine=machine,
            ),
            context=context,
            earlier=earlier,
        )

    def interrupted(self, *machines: str, before: str) -> tuple[RunDocument, ...]:
        """Return, from the store, a plan that was stopped when it came to the model `before`."""
        self.store = Store(f"duckdb:///{self.folder / 'store.duckdb'}", now=self.clock)

        def behave(order: CaseOrder, slot: Slot) -> Reply | str:
            if order.case.model == before:
                interrupt()
                return SILENT
            return measured(order, slot)

        first, *_ = self.run_on(self.cluster(*machines, behave=behave))
        return load_interrupted(self.store, first.run.id)


@pytest.fixture
def sandbox(tmp_path: Path) -> ClusterSandbox:
    return ClusterSandbox(tmp_path)


def outcomes(documents: list[RunDocument]) -> dict[str, list[Outcome]]:
    """Return how each case of the plan ended, each time that it is there."""
    by_case: dict[str, list[Outcome]] = {}
    for document in documents:
        for result in document.results:
            by_case.setdefault(result.case.model, []).append(result.outcome)
    return by_case


def reference_results(document: RunDocument) -> list[CaseResult]:
    """Return the results of reference cases."""
    return [result for result in document.results if result.case.is_reference]


def dying_with(model: str) -> Behaviour:
    """Return machines that are gone once they have the case of `model`."""

    def behave(order: CaseOrder, slot: Slot) -> Reply | None:
        return None if order.case.model == model else measured(order, slot)

    return behave


def test_machines_share_a_plan_and_each_has_a_run_of_its_own(sandbox: ClusterSandbox) -> None:
    sandbox.store = Store(f"duckdb:///{sandbox.folder / 'store.duckdb'}", now=sandbox.clock)
    cluster = sandbox.cluster("alpha", "beta")
    documents = sandbox.run_on(cluster)
    assert outcomes(documents) == {name: [Outcome.OK] for name in NAMES}
    assert [document.run.machine for document in documents] == ["alpha", "beta"]
    assert all(document.run.state is RunState.FINISHED for document in documents)
    for document in documents:
        planned = [case.key for case in document.run.plan]
        assert sorted(planned) == sorted(result.case.key for result in document.results)
        assert sandbox.load(document.run.id) == document
    assert not cluster.is_open


def test_every_machine_of_a_plan_has_the_code_of_a_model_that_keeps_it(
    sandbox: ClusterSandbox,
) -> None:
    sandbox.store = Store(f"duckdb:///{sandbox.folder / 'store.duckdb'}", now=sandbox.clock)
    code = sandbox.folder / "net.py"
    own = replace(CATALOG["c"], build=f"{code}:build", keep_source=True)
    sandbox.catalog = {**CATALOG, "c": own}
    nights = []
    for text in ("depth = 4\n", "depth = 5\n"):
        code.write_text(text)
        nights.append(sandbox.run_on(sandbox.cluster("alpha", "beta")))
        sandbox.clock.advance(60)
    store = sandbox.store
    for before, after in zip(*nights, strict=True):
        (diff,) = load_code_diffs(lambda: store, before.run, candidate=after.run, models=NAMES)
        assert diff.change.model == "c"
        assert diff.lines[-3:-1] == ("-depth = 4", "+depth = 5")


def test_every_machine_measures_the_reference_cases(sandbox: ClusterSandbox) -> None:
    documents = sandbox.run_on(sandbox.cluster("alpha", "beta"), WITH_REFERENCES)
    assert [len(reference_results(item)) for item in documents] == [3, 3]


def test_a_busy_machine_measures_its_reference_cases_later(sandbox: ClusterSandbox) -> None:
    # The other machine has measured the whole plan by then.
    num_busy = 4 * len(NAMES)
    answers = Counter[str]()

    def behave(order: CaseOrder, slot: Slot) -> Reply:
        answers[slot.machine] += 1
        if slot.machine == "beta" and answers["beta"] <= num_busy:
            return Reply(status=Status.BUSY)
        return measured(order, slot)

    cluster = sandbox.cluster("alpha", "beta", behave=behave)
    documents = sandbox.run_on(cluster, WITH_REFERENCES)
    assert [len(item.results) for item in documents] == [3 + len(NAMES), 3]


def test_a_reference_case_is_lost_with_its_machine(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    (document,) = sandbox.run_on(
        sandbox.cluster("alpha", "beta", behave=dying_with("ref_copy")),
        replace(WITH_REFERENCES, selection=Selection(models=("a",), modes=("eager",))),
        machine="alpha",
    )
    outcomes_by_case = outcomes([document])
    assert outcomes_by_case["ref_copy"] == [Outcome.NODE_LOST]
    (result,) = (item for item in document.results if item.case.model == "ref_copy")
    assert result.reason == words


def test_a_reference_case_of_the_plan_is_measured_once(sandbox: ClusterSandbox) -> None:
    request = replace(WITH_REFERENCES, selection=Selection(models=("ref_copy",)))
    (document,) = sandbox.run_on(sandbox.cluster("alpha"), request)
    assert sorted(case.model for case in document.run.plan) == sorted(REFERENCES)
    assert len(reference_results(document)) == len(REFERENCES)


def test_case_of_a_machine_that_is_gone_is_measured_by_another(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    died: list[str] = []

    def behave(order: CaseOrder, slot: Slot) -> Reply | None:
        if not died and slot.machine == "beta":
            died.append(order.case.model)
            return None
        return measured(order, slot)

    documents = sandbox.run_on(sandbox.cluster("alpha", "beta", behave=behave))
    assert outcomes(documents) == {name: [Outcome.OK] for name in NAMES}
    alpha, beta = documents
    assert died[0] in {case.model for case in alpha.run.plan}
    assert sandbox.messages() == words
    assert beta.run.plan == ()
    assert beta.run.state is RunState.FINISHED


def test_machine_that_is_gone_and_still_listed_is_left_alone_for_a_while(
    sandbox: ClusterSandbox,
) -> None:
    def behave(order: CaseOrder, slot: Slot) -> Reply | None:
        return None if slot.machine == "beta" else measured(order, slot)

    cluster = sandbox.cluster("alpha", "beta", behave=behave)
    cluster.lists_the_gone = True
    assert outcomes(sandbox.run_on(cluster)) == {name: [Outcome.OK] for name in NAMES}
    assert [machine for machine, _ in cluster.assigned].count("beta") == 1


def test_the_only_machine_is_tried_again_at_once(sandbox: ClusterSandbox) -> None:
    def behave(order: CaseOrder, slot: Slot) -> Reply | None:
        return None if len(cluster.assigned) == 1 else measured(order, slot)

    cluster = sandbox.cluster("alpha", behave=behave)
    cluster.lists_the_gone = True
    started_at = sandbox.clock()
    assert outcomes(sandbox.run_on(cluster)) == {name: [Outcome.OK] for name in NAMES}
    assert (sandbox.clock() - started_at).total_seconds() < BACKOFF_S


def test_case_that_takes_machine_after_machine_with_it_is_lost(sandbox: ClusterSandbox) -> None:
    machines = ("m1", "m2", "m3", "m4", "m5")
    cluster = sandbox.cluster(*machines, behave=dying_with("c"))
    outcomes_by_case = outcomes(sandbox.run_on(cluster))
    assert outcomes_by_case == {
        name: [Outcome.NODE_LOST if name == "c" else Outcome.OK] for name in NAMES
    }
    assert [model for _, model in cluster.assigned].count("c") == MAX_ASSIGNMENTS
    assert len(cluster.present) == len(machines) - MAX_ASSIGNMENTS


def test_machine_that_comes_later_takes_part(sandbox: ClusterSandbox) -> None:
    cluster = FakeCluster("alpha", clock=sandbox.clock, arrivals={2: "late"})
    documents = sandbox.run_on(cluster)
    assert [document.run.machine for document in documents] == ["alpha", "late"]
    assert all(len(document.results) > 0 for document in documents)
    assert documents[0].run.started_at == documents[1].run.started_at


def test_plan_waits_for_a_machine_that_comes_back_and_goes_on_in_its_run(
    sandbox: ClusterSandbox,
) -> None:
    died: list[str] = []

    def behave(order: CaseOrder, slot: Slot) -> Reply | None:
        if not died:
            died.append(order.case.model)
            return None
        return measured(order, slot)

    cluster = FakeCluster("alpha", clock=sandbox.clock, behave=behave, arrivals={2: "alpha"})
    (document,) = sandbox.run_on(cluster)
    assert outcomes([document]) == {name: [Outcome.OK] for name in NAMES}


def test_the_rest_of_a_plan_fails_when_no_machine_returns(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    started_at = sandbox.clock()
    documents = sandbox.run_on(sandbox.cluster("alpha", behave=dying_with("c")))
    assert outcomes(documents) == {
        name: [Outcome.OK if name in "ab" else Outcome.NODE_LOST] for name in NAMES
    }
    waited_s = (sandbox.clock() - started_at).total_seconds()
    assert NO_NODES_LIMIT_S < waited_s < NO_NODES_LIMIT_S + 60
    assert sandbox.messages()[-1] == words


def test_case_of_a_silent_machine_is_taken_from_it_and_counted_once(
    sandbox: ClusterSandbox,
) -> None:
    def behave(order: CaseOrder, slot: Slot) -> Reply | str:
        return SILENT if slot.machine == "mute" and order.case.model else measured(order, slot)

    cluster = sandbox.cluster("mute", "alpha", behave=behave)
    outcomes_by_case = outcomes(sandbox.run_on(cluster))
    assert all(len(times) == 1 for times in outcomes_by_case.values())
    # Once: it gets no other case.
    assert cluster.cancelled == ["mute"]


def test_a_silent_machine_gets_no_other_case(sandbox: ClusterSandbox) -> None:
    cluster = sandbox.cluster("mute", behave=lambda _order, _slot: SILENT)
    assert outcomes(sandbox.run_on(cluster)) == {name: [Outcome.NODE_LOST] for name in NAMES}
    assert cluster.cancelled == ["mute"]


def test_busy_machine_does_not_count_against_its_case(sandbox: ClusterSandbox) -> None:
    answers = Counter[str]()

    def behave(order: CaseOrder, slot: Slot) -> Reply:
        answers[order.case.model] += 1
        if order.case.model == "b" and answers["b"] <= MAX_ASSIGNMENTS + 1:
            return Reply(status=Status.BUSY)
        return measured(order, slot)

    assert outcomes(sandbox.run_on(sandbox.cluster("alpha", behave=behave)))["b"] == [Outcome.OK]


def test_machine_without_a_usable_toolchain_is_left_out_and_said(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    cluster = sandbox.cluster("alpha", "broken")
    cluster.looks["broken"] = Reply(status=Status.UNUSABLE, reason="no torch")
    (document,) = sandbox.run_on(cluster)
    assert document.run.machine == "alpha"
    assert sandbox.messages() == words


@pytest.mark.parametrize("status", [Status.UNUSABLE, Status.GONE])
def test_without_any_usable_machine_the_reasons_are_the_error(
    status: Status, sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    cluster = sandbox.cluster("alpha")
    cluster.looks["alpha"] = Reply(status=status, reason="no torch")
    with pytest.raises(ToolchainUnusable) as caught:
        sandbox.run_on(cluster)
    assert str(caught.value) == words
    assert not cluster.is_open


def test_the_output_of_a_case_travels_with_the_heartbeat(
    sandbox: ClusterSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[Callable[[], None]] = []
    logs: list[LiveLog | None] = []
    sandbox.store = Store(f"duckdb:///{sandbox.folder / 'store.duckdb'}", now=sandbox.clock)

    @contextmanager
    def by_hand(beat: Callable[[], None]) -> Iterator[None]:
        beats.append(beat)
        yield

    def behave(order: CaseOrder, slot: Slot) -> Reply:
        beats[0]()
        assert sandbox.store is not None
        with sandbox.store.read() as connection:
            logs.append(get_live_log(connection, order.run_id))
        return measured(order, slot)

    def log_of(order: CaseOrder) -> LiveLog:
        lines = (LogLine(offset=0, text=f"building {order.case.model}"),)
        return LiveLog(case_key=order.case.key, lines=lines)

    monkeypatch.setattr("compile_hud.runner.cluster.coordinator.heartbeat", by_hand)
    cluster = sandbox.cluster("alpha", behave=behave)
    cluster.log_of = log_of
    # The facts are queried before there is a run; between two cases it has no log.
    cluster.on_submit = lambda: beats[0]()
    (document,) = sandbox.run_on(cluster)
    texts = [log.lines[0].text for log in logs if log is not None]
    assert texts == [f"building {name}" for name in NAMES]
    beats[0]()
    with sandbox.store.read() as connection:
        assert get_live_log(connection, document.run.id) is None


def is_caught(number: signal.Signals) -> bool:
    """Return whether this process has a handler for a signal, as the kernel knows it."""
    status = Path("/proc/self/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.fixture
def own_sigterm() -> Iterator[None]:
    """Give SIGTERM back after a test that sets it, also one that fails."""
    outside = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, outside)


@pytest.mark.usefixtures("own_sigterm")
def test_a_plan_leaves_sigterm_and_standard_output_as_they_were(
    sandbox: ClusterSandbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: SnapshotAssertion,
) -> None:
    cluster, before = sandbox.cluster("alpha"), lambda _number, _frame: None
    signal.signal(signal.SIGTERM, before)
    monkeypatch.setattr(cluster, "open", lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))

    def close() -> None:
        click.echo("(raylet) a node has died")
        # Past Python, which goes on naming its handler, as Ray's own signal handling does.
        ctypes.CDLL(None).signal(int(signal.SIGTERM), None)

    monkeypatch.setattr(cluster, "close", close)
    sandbox.run_on(cluster)
    assert signal.getsignal(signal.SIGTERM) == before
    assert is_caught(signal.SIGTERM)
    click.echo("the document")
    output = capsys.readouterr()
    assert output.out == "the document\n"
    assert output.err == words


def test_one_machine_of_the_cluster_measures_what_is_of_it(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    cluster = sandbox.cluster("alpha", "beta")
    (document,) = sandbox.run_on(cluster, machine="beta")
    assert document.run.machine == "beta"
    assert outcomes([document]) == {name: [Outcome.OK] for name in NAMES}
    with pytest.raises(ExecutorError) as caught:
        sandbox.run_on(sandbox.cluster("alpha"), machine="gamma")
    assert str(caught.value) == words


def test_without_a_node_the_command_that_adds_one_is_reported(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    with pytest.raises(ExecutorError) as caught:
        sandbox.run_on(sandbox.cluster())
    assert str(caught.value) == words


def test_an_unknown_name_is_reported_before_the_cluster_is_queried(sandbox: ClusterSandbox) -> None:
    request = replace(PLAN, selection=Selection(models=("nothing",)))
    with pytest.raises(UnknownNameError):
        sandbox.run_on(sandbox.cluster("alpha"), request)


def test_cases_stay_on_the_machine_that_measured_them_last(sandbox: ClusterSandbox) -> None:
    first = sandbox.run_on(sandbox.cluster("alpha", "beta"))
    at = sandbox.clock()
    for document in first:
        keys = [result.case.key for result in document.results]
        sandbox.worths[document.run.machine] = Worth(last_measured=dict.fromkeys(keys, at))
    second = sandbox.run_on(sandbox.cluster("beta", "alpha"))
    plans = [
        [{case.key for case in item.run.plan} for item in assignments]
        for assignments in (first, second)
    ]
    assert plans[0] == plans[1]


def test_two_nodes_of_one_machine_share_its_run_unless_their_environments_differ(
    sandbox: ClusterSandbox,
) -> None:
    cluster = sandbox.cluster("alpha", "alpha")
    cluster.present = [Slot(node_id=str(number), machine="alpha") for number in range(2)]
    assert len(sandbox.run_on(cluster)) == 1
    assert len([event for event in sandbox.events if isinstance(event, RunStarted)]) == 1
    other = Reply(status=Status.DONE, facts=({**FACTS, "cpu_model": "another"},))
    differing = sandbox.cluster("alpha", "other")
    differing.looks["other"] = other
    fingerprints = {item.run.fingerprint for item in sandbox.run_on(differing)}
    assert len(fingerprints) == 2


def test_ctrl_c_ends_the_runs_and_kills_what_the_machines_do(sandbox: ClusterSandbox) -> None:
    def behave(order: CaseOrder, slot: Slot) -> Reply | str:
        if order.case.model == "c":
            interrupt()
            return SILENT
        return measured(order, slot)

    cluster = sandbox.cluster("alpha", behave=behave)
    (document,) = sandbox.run_on(cluster)
    assert document.run.state is RunState.INTERRUPTED
    assert [result.case.model for result in document.results] == ["a", "b"]
    assert [case.model for case in document.run.plan] == list(NAMES)
    assert not cluster.is_open


def test_interrupted_plan_goes_on_with_the_next_case_in_the_same_runs(
    sandbox: ClusterSandbox,
) -> None:
    earlier = sandbox.interrupted("alpha", "beta", before="d")
    states: list[RunState] = []

    def behave(order: CaseOrder, slot: Slot) -> Reply:
        states.append(sandbox.load(order.run_id).run.state)
        return measured(order, slot)

    cluster = sandbox.cluster("beta", "alpha", behave=behave)
    documents = sandbox.run_on(cluster, earlier=earlier)
    done = {result.case.model for item in earlier for result in item.results}
    assert done
    assert {model for _, model in cluster.assigned} == set(NAMES) - done
    assert outcomes(documents) == {name: [Outcome.OK] for name in NAMES}
    assert [item.run.id for item in documents] == [item.run.id for item in earlier]
    assert set(states) == {RunState.RUNNING}
    for document in documents:
        assert document.run.state is RunState.FINISHED
        assert {case.key for case in document.run.plan} == {
            result.case.key for result in document.results
        }
        assert sandbox.load(document.run.id) == document


def test_machines_that_did_not_begin_a_plan_may_end_it(sandbox: ClusterSandbox) -> None:
    earlier = sandbox.interrupted("alpha", before="c")
    documents = sandbox.run_on(sandbox.cluster("gamma"), earlier=earlier)
    assert [document.run.machine for document in documents] == ["alpha", "gamma"]
    assert [len(document.results) for document in documents] == [2, len(NAMES) - 2]
    assert {document.run.started_at for document in documents} == {earlier[0].run.started_at}
    assert all(document.run.state is RunState.FINISHED for document in documents)


def test_a_finished_plan_stays_as_it_was_on_resume(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    earlier = sandbox.interrupted("alpha", before="c")
    cluster = sandbox.cluster("alpha")
    cluster.looks["alpha"] = Reply(status=Status.UNUSABLE, reason="no torch")
    with pytest.raises(ToolchainUnusable):
        sandbox.run_on(cluster, earlier=earlier)
    assert sandbox.store is not None
    (left,) = load_interrupted(sandbox.store, earlier[0].run.id)
    assert left.run.plan == earlier[0].run.plan
    sandbox.run_on(sandbox.cluster("alpha"), earlier=[left])
    with pytest.raises(ResumeError) as caught:
        load_interrupted(sandbox.store, left.run.id)
    assert str(caught.value) == words


def test_a_plan_being_measured_is_not_resumed(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    sandbox.store = Store(f"duckdb:///{sandbox.folder / 'store.duckdb'}", now=sandbox.clock)
    run = make_run(state=RunState.RUNNING)
    sandbox.store.save_run(run)
    with pytest.raises(ResumeError) as caught:
        check_is_silent(sandbox.store, run.id, now=sandbox.clock())
    assert caught.value.parameters["run"] == "run-1"
    assert str(caught.value) == words
    sandbox.clock.advance(HEARTBEAT_TIMEOUT_S)
    check_is_silent(sandbox.store, run.id, now=sandbox.clock())


def test_results_without_a_store_wait_in_the_spool(sandbox: ClusterSandbox) -> None:
    documents = sandbox.run_on(sandbox.cluster("alpha"))
    assert sandbox.spool is not None
    store = Store(f"duckdb:///{sandbox.folder / 'later.duckdb'}", now=sandbox.clock)
    report = sandbox.spool.drain(store)
    assert not report.error
    sandbox.store = store
    assert sandbox.load(documents[0].run.id) == documents[0]


def test_time_budget_puts_off_what_no_machine_has_time_for(sandbox: ClusterSandbox) -> None:
    request = replace(PLAN, time_budget_s=2.5)
    results = [
        result
        for item in sandbox.run_on(sandbox.cluster("alpha"), request)
        for result in item.results
    ]
    assert len(results) == len(NAMES)
    assert [result.is_deferred for result in results] == [False] * 2 + [True] * 4


def test_results_name_the_other_processes_on_the_device(sandbox: ClusterSandbox) -> None:
    cluster = sandbox.cluster("alpha")
    cluster.looks["alpha"] = Reply(status=Status.DONE, facts=(FACTS,), users=("python (7)",))
    (document,) = sandbox.run_on(cluster)
    assert all(
        [warning.code for warning in result.warnings] == [SHARED] for result in document.results
    )


def test_trace_of_a_result_is_where_the_spool_looks_for_it(sandbox: ClusterSandbox) -> None:
    def behave(order: CaseOrder, slot: Slot) -> Reply:
        reply = measured(order, slot)
        return replace(reply, traces=(b"trace",))

    (document,) = sandbox.run_on(sandbox.cluster("alpha", behave=behave))
    traces = list((sandbox.folder / "spool").glob("*.json.gz"))
    assert {path.name.partition(".")[0] for path in traces} == {
        result.id for result in document.results
    }
    assert traces[0].read_bytes() == b"trace"


def test_stopped_before_a_machine_answered_there_is_no_run(
    sandbox: ClusterSandbox, words: SnapshotAssertion
) -> None:
    cluster = sandbox.cluster("alpha")
    cluster.looks["alpha"] = None
    cluster.on_submit = interrupt
    with pytest.raises(RunInterrupted) as caught:
        sandbox.run_on(cluster)
    assert str(caught.value) == words
    assert not cluster.is_open
