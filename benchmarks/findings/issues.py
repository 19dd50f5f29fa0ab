"""Ask whether `hud run` names the cause that public issues report, on small models of our own.

Each issue has a model with its cause (issue_models.py). `hud run` measures it eagerly and compiled,
and its document has the findings. An issue that needs a GPU has a recorded run, or no result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.findings.timed_findings import timed_findings
from benchmarks.hud_command import measured_by_hud
from benchmarks.startup import RESULTS, ROOT, commit, describe_machine
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import CaseResult, RunDocument

# 1: first version.
SCHEMA_VERSION = 1
MODELS = ROOT / "benchmarks" / "findings" / "issue_models.py"
LEDGER = ROOT / "benchmarks" / "gpu" / "ledger"
# Compiled in two processes, with few samples: the causes are not a matter of a percent.
_RUN = """
[run]
launches = 2
max_launches = 2
target_interval = 0.0
rounds = 10
budget_s = 2.0
sweep = false
reference_cases = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A public issue, and the finding that names its cause.

    `code` is that finding. It names the cause if it has the line with `line`, or `operator`.
    `model` is a function of issue_models.py. `recording` is a run on a GPU and `case` its case.
    """

    name: str
    url: str
    symptom: str
    code: str
    model: str = ""
    phase: str = "inference"
    line: str = ""
    operator: str = ""
    recording: str = ""
    case: str = ""
    why_none: str = ""


def _github(path: str, **fields: str) -> Issue:
    owner_and_name, _, number = path.partition("#")
    kind = "issues" if "pull" not in fields else fields.pop("pull")
    return Issue(name=path, url=f"https://github.com/{owner_and_name}/{kind}/{number}", **fields)


ISSUES = (
    _github(
        "pytorch/pytorch#125718",
        symptom="complex numbers compile to calls of ATen, slower than eager",
        code="unsupported-codegen",
        model="complex_rotation",
        operator="mul",
    ),
    _github(
        "pytorch/pytorch#128319",
        symptom="a counter among the attributes of a module recompiles it at each call",
        code="recompiles",
        model="call_counter",
        line="self.num_calls += 1",
    ),
    _github(
        "pytorch/pytorch#114220",
        symptom="indexing by a boolean mask breaks the graph",
        code="graph-break",
        model="boolean_mask",
        line="chosen = scaled[",
    ),
    _github(
        "PrimeIntellect-ai/prime-rl#996",
        symptom="counts of tokens as a list break the graph of a mixture of experts",
        code="graph-break",
        model="routed_experts",
        line=".tolist()",
    ),
    _github(
        "NVIDIA/TransformerEngine#705",
        symptom="layers that Dynamo must not trace give many graphs, and a net slowdown",
        code="graph-break",
        model="skipped_layers",
        line="self.layer(self.norm(x))",
    ),
    _github(
        "pytorch/pytorch#136263",
        symptom="the compiled gradient of cumprod is several times slower than eager's",
        code="slower-kernel",
        model="cumulative_product",
        phase="training",
        line="torch.cumprod(",
    ),
    _github(
        "pytorch/pytorch#110611",
        symptom="tanh and log take longer in generated C++ than in ATen",
        code="slower-kernel",
        model="elementary_function",
        operator="tanh",
    ),
    _github(
        "pytorch/torchdynamo#2013",
        symptom="cumsum falls back to ATen on a CPU, and nothing fuses with it",
        code="extern-fallback",
        model="cumulative_sum",
        operator="cumsum",
    ),
    _github(
        "pytorch/pytorch#108491",
        symptom="AdamW on a CPU needs one pass over the weights for each operation",
        code="unfused-optimizer",
        model="many_weights",
        phase="training",
        operator="for each weight",
    ),
    _github(
        "vllm-project/vllm#11216",
        pull="pull",
        symptom="evaluating the guards takes a third of a millisecond at each call",
        code="guard-overhead",
        model="many_guards",
    ),
    _github(
        "huggingface/transformers#48925",
        symptom="compiled attention gets another mask than eager's, and no fused kernel",
        code="attention-decomposed",
        operator="scaled_dot_product_attention",
        recording="20261127-075322-c79730.json.gz",
        case="bert/inference/full_unmasked/bf16/default/cuda",
    ),
    _github(
        "pytorch/pytorch#124506",
        symptom="nothing says how much of a model runs in CUDA graphs",
        code="cudagraph-coverage",
        why_none="needs a GPU: a CPU has no CUDA graphs, and no recorded run has launches outside",
    ),
)


def verdict(issue: Issue, findings: Sequence[Finding]) -> str:
    """Return yes if a finding names the cause with its location, partly without it, or no."""
    named = [finding for finding in findings if finding.code == issue.code]
    if not named:
        return "no"
    return "yes" if any(_has_location(issue, finding) for finding in named) else "partly"


def _has_location(issue: Issue, finding: Finding) -> bool:
    if issue.line:
        return finding.where.line == f"{MODELS.name}:{line_of(issue.line)}"
    words = " ".join((*finding.where.operators, finding.text))
    return issue.operator in words


def line_of(code: str) -> int:
    """Return the line of issue_models.py with `code`, which has it once."""
    lines = MODELS.read_text(encoding="ascii").splitlines()
    (number,) = (index for index, line in enumerate(lines, 1) if code in line)
    return number


def measure(issues: Sequence[Issue]) -> dict[str, RunDocument]:
    """Return the runs of the models of `issues`, by model."""
    with _workplace(issues) as folder:
        return {
            issue.model: measured_by_hud(folder, issue.model, "--phase", issue.phase)
            for issue in issues
        }


@contextmanager
def _workplace(issues: Sequence[Issue]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        tables = [
            f'[models.{issue.model}]\nbuild = "benchmarks.findings.issue_models:{issue.model}"\n'
            for issue in issues
        ]
        (Path(name) / "hud.toml").write_text(_RUN + "".join(tables), encoding="ascii")
        yield Path(name)


def row_of(issue: Issue, document: RunDocument | None) -> dict[str, Any]:
    """Return the issue with the findings of its compiled case."""
    row: dict[str, Any] = {
        key: value for key, value in asdict(issue).items() if value or key == "why_none"
    }
    if document is None:
        return {**row, "is_named": None, "findings": []}
    result = next(item for item in document.results if _is_case(issue, item))
    findings, findings_s = timed_findings(document, result)
    speedup = result.measurement("speedup")
    return {
        **row,
        "is_named": verdict(issue, findings),
        "outcome": str(result.outcome),
        "speedup": None if speedup is None else [speedup.median, *speedup.interval],
        "findings_s": findings_s,
        "findings": [_brief(finding) for finding in findings],
    }


def _is_case(issue: Issue, result: CaseResult) -> bool:
    return result.case.key == issue.case if issue.case else not result.case.is_eager


def _brief(finding: Finding) -> dict[str, Any]:
    content: Mapping[str, Any] = finding.to_json()
    return {key: content[key] for key in ("code", "text", "cost_s", "where")}


def recorded(issue: Issue) -> RunDocument | None:
    """Return the recorded run of an issue that needs a GPU, None without one."""
    if not issue.recording:
        return None
    content = gzip.decompress((LEDGER / issue.recording).read_bytes())
    return RunDocument.from_json(json.loads(content))


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of issues by answer, and the largest time of the findings of a case."""
    answers = [row["is_named"] for row in rows]
    return {
        "num_issues": len(rows),
        **{f"num_{answer}": answers.count(answer) for answer in ("yes", "partly", "no")},
        "num_unknown": answers.count(None),
        "max_findings_s": max(row["findings_s"] for row in rows if "findings_s" in row),
    }


def main() -> None:
    """Measure all issues and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--issue", action="append", help="only this one, such as 125718")
    parser.add_argument("--out", type=Path, default=RESULTS / "findings_issues.json")
    options = parser.parse_args()
    chosen = [
        issue
        for issue in ISSUES
        if not options.issue or issue.name.rpartition("#")[2] in options.issue
    ]
    machine = describe_machine()
    documents = measure([issue for issue in chosen if issue.model])
    rows = [row_of(issue, documents.get(issue.model) or recorded(issue)) for issue in chosen]
    document = {
        "schema_version": SCHEMA_VERSION,
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine,
        "summary": summary(rows),
        "issues": rows,
    }
    options.out.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")
    print(json.dumps(document["summary"], indent=1))


if __name__ == "__main__":
    main()
