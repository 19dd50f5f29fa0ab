"""A terminal with a good and a bad toolchain, whose kernels differ and whose launches are drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Case, CaseResult, Outcome
from compile_hud.runner.execution.environment import fingerprint
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import LaunchReport
from compile_hud.runner.protocol.transplants import TRANSPLANTS
from compile_hud.runner.transplant.interfaces import KernelCode
from tests.support.builders import make_case, make_document, make_measurement, make_result, make_run
from tests.support.fakes import FACTS
from tests.support.records.kernel_versions import cpp_code, version
from tests.support.runs.bisection import BisectTerminal

CASE = ("--model", "net", "--mode", "default", "--phase", "inference")
SIDES = ("--toolchain", "good", "bad")
GOOD_S, BAD_S = 0.010, 0.015


def versions(name: str, *, good_us: float = 1000.0, bad_us: float = 6000.0) -> list[KernelCode]:
    """Return the good and the bad version of a kernel."""
    return [
        version(cpp_code(f"{name}({speed});"), name=f"cpp_fused_{name}_0", mean_us=mean_us)
        for speed, mean_us in (("fast", good_us), ("slow", bad_us))
    ]


class TransplantTerminal(BisectTerminal):
    """A terminal with the toolchains `good` and `bad`; `kernels` has both versions of each kernel.

    A transplanted kernel takes `gains` seconds of the bad build's time away, by its name.
    """

    def __init__(
        self,
        folder: Path,
        *kernels: Sequence[KernelCode],
        gains: Mapping[str, float] | None = None,
        bad_s: float = BAD_S,
    ) -> None:
        super().__init__(folder, {"good": GOOD_S, "bad": bad_s})
        self.kernels = kernels
        self.gains = dict(gains or {})
        # The ending of launches with the transplant of this kernel, from this launch on.
        self.endings: dict[str, tuple[int, Outcome]] = {}
        self.confirms = True

    def name_of(self, order: CaseOrder, name: str) -> str:
        """Return the toolchain, with the kernels that are transplanted."""
        names = [item.name for item in order.workload.transplants]
        full = "+".join([name, *names])
        self.levels.setdefault(
            full, self.levels[name] - sum(self.gains.get(item, 0.0) for item in names)
        )
        return full

    def draw(self, name: str, order: CaseOrder, number: int) -> LaunchReport:
        """Return a launch of a build, with its transplants."""
        report = super().draw(name, order, number)
        for item in order.workload.transplants:
            first, outcome = self.endings.get(item.name, (0, Outcome.OK))
            if outcome is not Outcome.OK and number >= first:
                return LaunchReport(outcome=outcome, reason=f"{item.name} broke")
        used = [{"name": item.name, "sha256": item.sha256} for item in order.workload.transplants]
        return replace(report, details={TRANSPLANTS: used} if self.confirms else {})

    def _amend(self, name: str, result: CaseResult) -> CaseResult:
        if result.outcome is not Outcome.OK:
            return result
        return with_versions(result, [pair[name.startswith("bad")] for pair in self.kernels])

    def transplant(self, *arguments: str) -> Any:
        """Return the document of `hud kernels transplant --json`, whatever its exit code."""
        sides = arguments or (*SIDES, *CASE)
        result = self.hud("kernels", "transplant", *sides, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def write_runs(self, *, toolchain: str = "bad", revision: str = "9.bad@0123456789") -> None:
        """Write the results of a good and a bad run of one toolchain as `a.json` and `b.json`."""
        facts = {**FACTS, "num_threads": 1}
        for name, latency_s, number in (("a", GOOD_S, 0), ("b", BAD_S, 1)):
            run = make_run(
                f"run-{name}",
                plan=[net_case()],
                toolchain=toolchain,
                revision=revision if name == "b" else "9.old@0123456789",
                environment=facts,
                fingerprint=fingerprint(facts),
            )
            result = make_result(
                f"result-{name}",
                run=run,
                case=net_case(),
                measurements=[make_measurement(samples=[latency_s] * 6)],
            )
            result = with_versions(result, [pair[number] for pair in self.kernels])
            document = make_document(run, results=(result,)).to_json()
            (self.folder / f"{name}.json").write_text(json.dumps(document))


def net_case() -> Case:
    """Return the case that CASE selects."""
    return make_case("net", mode="default", variant="default", shape="default")


def with_versions(result: CaseResult, kernels: Sequence[KernelCode]) -> CaseResult:
    """Return `result` with kernels and their code."""
    return replace(
        result,
        kernels=tuple(item.kernel for item in kernels),
        sources=tuple(
            KernelSource(hash=item.kernel.source_hash, language=item.language, text=item.text)
            for item in kernels
        ),
    )
