"""Warnings of torch's compiler, on any device, and failures at its recompile limit."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._inductor import config as inductor_config
from torch._inductor import lowering

from compile_hud.db.records.results import Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.measure.compile import compiler_warnings
from compile_hud.runner.measure.compile.compiler_warnings import (
    MAX_TEXT_CHARS,
    CompilerWarnings,
    recorded_warnings,
    with_compiler_warnings,
)
from compile_hud.runner.measure.compile.dynamo import compile_failure_reason, read_counts
from compile_hud.runner.protocol.messages import LaunchReport
from tests.support.runs.launch_contexts import forget_compiled

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    forget_compiled()
    lowering._warn_complex_not_supported.cache_clear()
    with inductor_config.patch(force_disable_caches=True):
        yield
    forget_compiled()


class Spectrum(nn.Module):
    """Complex numbers in the middle of a model."""

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x)
        return (spectrum * spectrum.conj()).real


def test_complex_operators_are_a_warning_with_the_line_of_the_model() -> None:
    with recorded_warnings() as recorder:
        torch.compile(Spectrum())(torch.ones(3, 20))
    (warning,) = recorder.warnings()
    assert warning.code == "complex-operators"
    name = Path(__file__).name
    first = Spectrum.forward.__code__.co_firstlineno
    lines = [f"(at {name}:{first + offset} in forward)" for offset in (1, 2)]
    assert any(line in warning.text for line in lines)


def test_what_a_model_or_another_library_warns_of_is_not_the_compiler() -> None:
    with recorded_warnings() as recorder:
        warnings.warn("complex operators of mine", UserWarning, stacklevel=1)
        logging.getLogger("torch.nn").warning("complex operators of a layer")
        logging.getLogger("torch._dynamo.guards").info("complex operators in a guard")
    assert recorder.warnings() == ()


def test_other_warnings_of_the_compiler_share_a_code_and_a_bound(
    words: SnapshotAssertion,
) -> None:
    with recorded_warnings() as recorder:
        for number in [*range(5), 2]:
            logging.getLogger("torch._functorch.partitioners").warning("odd graph %d", number)
        logging.getLogger("torch._inductor.ir").warning("long %s", "x" * 1000)
    (warning,) = recorder.warnings()
    assert warning.code == "compiler-warning"
    assert warning.text == words
    only_long = CompilerWarnings()
    only_long.record("Inductor", "y" * 1000)
    assert len(only_long.warnings()[0].text) == len("Inductor: ") + MAX_TEXT_CHARS


TORCH_TEXTS = {
    "_inductor/compile_fx.py": "TensorFloat32 tensor cores for float32 matrix multiplication"
    " available but not enabled.",
    "_inductor/lowering.py": "\nOnline softmax is disabled on the fly since Inductor decides to\n"
    "split the reduction.",
    "_inductor/autotune_process.py": "Failed to benchmark choice 'mm_7'. It will be ignored.",
    "_inductor/cudagraph_trees.py": "Unable to hit fast path of CUDAGraphs because outputs",
    "_dynamo/utils.py": "something new in this torch",
}


def _warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, stacklevel=1)


def warn_from(file: str, text: str, *, category: type[Warning] = UserWarning) -> None:
    """Warn as code of `file` in the folder of torch does."""
    path = str(Path(torch.__file__).parent / file)
    names = {"warnings": warnings, "__name__": "odd"}
    FunctionType(_warn.__code__.replace(co_filename=path), names)(text, category)


def test_each_known_kind_has_a_code_and_a_remedy(words: SnapshotAssertion) -> None:
    with recorded_warnings() as recorder:
        for file, text in TORCH_TEXTS.items():
            warn_from(file, text)
            warn_from(file, text)
        log = logging.getLogger("torch._inductor.utils")
        sms = {"min_sms": 68, "avail_sms": 46}
        log.warning("Not enough SMs to use max_autotune_gemm mode", extra=sms)
        logging.getLogger("torch._inductor.cudagraph_utils").warning("skipping cudagraphs due to x")
        warn_from("_dynamo/eval_frame.py", "of developers", category=FutureWarning)
        warn_from("functional.py", "of the eager operators")
    assert [f"{item.code}: {item.text} | {item.hint}" for item in recorder.warnings()] == words


def test_nothing_of_the_recording_stays() -> None:
    names = [*compiler_warnings._LOGGERS, "torch._inductor.graph"]
    loggers = [logging.getLogger(name) for name in names]
    before = [(list(log.handlers), list(log.filters), log.level) for log in loggers]
    show = warnings.showwarning
    with recorded_warnings():
        assert warnings.showwarning is not show
    assert [(list(log.handlers), list(log.filters), log.level) for log in loggers] == before
    assert warnings.showwarning is show


def test_an_operator_without_a_lowering_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    @torch.library.custom_op("hudtests::halved", mutates_args=())
    def halved(x: Tensor) -> Tensor:
        return x / 2

    halved.register_fake(lambda x: torch.empty_like(x))
    with recorded_warnings() as recorder:
        torch.compile(lambda x: halved(x.sin()) + 1)(torch.ones(9))
    (warning,) = recorder.warnings()
    assert warning.code == "operator-fallback"
    assert "hudtests.halved.default (at test_compiler_warnings.py:" in warning.text
    # Its line would fill the log of each case.
    assert "implicit fallback" not in capfd.readouterr().err


class Widening(nn.Module):
    """A guard on another attribute fails in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 1

    def forward(self, x: Tensor) -> Tensor:
        self.width += 3
        return x * self.width


def failure_at_the_limit(limit: int) -> BaseException:
    compiled = torch.compile(Widening(), backend="eager", fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=limit):
        for _ in range(limit):
            compiled(torch.ones(2))
        with pytest.raises(FailOnRecompileLimitHit) as caught:
            compiled(torch.ones(2))
    return caught.value


@pytest.mark.parametrize("limit", [2, 5])
def test_a_failure_at_the_recompile_limit_names_the_guard_and_its_line(limit: int) -> None:
    error = failure_at_the_limit(limit)
    line = Widening.forward.__code__.co_firstlineno + 1
    assert len(read_counts().at_limit) == 1
    with torch._dynamo.config.patch(recompile_limit=limit):
        reason = compile_failure_reason(error)
    assert f"limit of {limit} " in reason
    assert f" {limit - 1} recompile" in reason
    assert f"`self.width == {1 + 3 * (limit - 1)}`" in reason
    assert reason.endswith(f"(at test_compiler_warnings.py:{line} in forward)")


def test_other_failures_keep_their_own_words() -> None:
    assert compile_failure_reason(ValueError("no limit")) == "ValueError: no limit"


def test_a_function_that_is_skipped_as_a_whole_is_named_with_the_reason() -> None:
    def looping(x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    compiled = torch.compile(looping, backend="eager")
    compiled(torch.ones(4))
    (skipped,) = read_counts().skipped
    assert skipped.function == "looping"
    assert "Explanation" not in skipped.reason
    assert skipped.line == looping.__code__.co_firstlineno + 3


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.FAILED])
def test_a_report_has_the_warnings_of_the_compiler_whatever_its_outcome(outcome: Outcome) -> None:
    own = RunWarning(code="recompile-limit", text="LAUNCH")

    def launch() -> LaunchReport:
        logging.getLogger("torch._inductor.scheduler").warning("ending")
        # The launch reports this one itself, in more detail.
        logging.getLogger("torch._dynamo.convert_frame").warning("hit config.recompile_limit (8)")
        return LaunchReport(outcome=outcome, warnings=(own,))

    report = with_compiler_warnings(launch)
    assert report.outcome is outcome
    assert [item.text for item in report.warnings] == ["LAUNCH", "Inductor: ending"]


def test_the_limit_is_a_warning_where_the_launch_ended_before_it_could_report() -> None:
    recorder = CompilerWarnings()
    recorder.record("Dynamo", "torch._dynamo hit config.recompile_limit (8)")
    assert [item.code for item in recorder.warnings()] == ["recompile-limit"]
