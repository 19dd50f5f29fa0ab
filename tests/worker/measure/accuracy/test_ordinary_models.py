"""Models as people write them: equal starts make two runs of them comparable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure import launch
from compile_hud.runner.measure.accuracy.aligned import check_aligned
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.own_compilation import turn_own_compilation_off
from compile_hud.runner.measure.resources.memory_growth import held_bytes
from tests.support import ordinary_models as models
from tests.support.nightly import daily_first
from tests.support.runs.launch_contexts import forget_compiled, make_context

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    # The compiler's own, about complex numbers and Python's generator.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
BACKENDS = ["eager", "inductor"]
TRAINING, INFERENCE = Phase.TRAINING, Phase.INFERENCE


def measured(
    model: nn.Module,
    inputs: dict[str, Tensor] | None = None,
    *,
    backend: str,
    phase: Phase = Phase.INFERENCE,
) -> Context:
    """Return the context of a launch of `model` that ended ok."""
    torch.manual_seed(1)
    forget_compiled()
    model.train(phase is Phase.TRAINING)
    given = {"x": models.rows()} if inputs is None else inputs
    context = make_context(model, given, phase=phase, backend=backend, num_rounds=5)
    ending = launch._measure(context)
    assert ending.reason == ""
    assert "latency_s" in context.findings.metrics
    return context


def codes(context: Context) -> list[str]:
    """Return the codes of the warnings about what the model is, not about the machine."""
    about_models = {
        *("nondeterministic-eager", "nondeterministic-variant", "accuracy-not-checked"),
        *("eager-compiles", "memory-grows", "no-fp64-oracle"),
    }
    return [item.code for item in context.findings.warnings if item.code in about_models]


@pytest.mark.parametrize(
    ("make", "phase", "backend"),
    daily_first(
        [
            (lambda: models.Dropping(0.5), TRAINING, "inductor"),
            (models.Noisy, INFERENCE, "eager"),
            (lambda: models.Dropping(0.1), TRAINING, "inductor"),
            (lambda: models.Dropping(0.1), TRAINING, "eager"),
            (models.Noisy, INFERENCE, "inductor"),
            (models.PythonRandom, INFERENCE, "inductor"),
            (models.Recurrent, TRAINING, "inductor"),
            (models.Attending, TRAINING, "inductor"),
            (models.Sampling, INFERENCE, "inductor"),
        ],
        num_daily=2,
    ),
)
def test_random_numbers_are_drawn_alike_and_the_accuracy_is_checked(
    make: Callable[[], nn.Module], phase: Phase, backend: str
) -> None:
    context = measured(make(), backend=backend, phase=phase)
    assert codes(context) == []
    assert context.findings.details["accuracy"]["is_random"]
    cosine = context.findings.metrics["cosine_similarity"].samples[0]
    assert cosine == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "phase", "backend"),
    daily_first(
        [
            (models.Counting, INFERENCE, "inductor"),
            (models.LowestOfDtype, INFERENCE, "eager"),
            (models.Normalised, TRAINING, "inductor"),
            (models.Banning, INFERENCE, "inductor"),
            (models.Banning, INFERENCE, "eager"),
            (lambda: models.Banning(-3e38), INFERENCE, "inductor"),
            (models.LowestOfDtype, INFERENCE, "inductor"),
            (models.DataclassOutput, TRAINING, "inductor"),
            (models.ManyOutputs, INFERENCE, "inductor"),
            (models.Tied, TRAINING, "inductor"),
            (models.Frozen, TRAINING, "inductor"),
        ],
        num_daily=2,
    ),
)
def test_models_that_draw_nothing_are_compared_with_the_oracle(
    make: Callable[[], nn.Module], phase: Phase, backend: str
) -> None:
    context = measured(make(), backend=backend, phase=phase)
    assert codes(context) == []
    assert not {"is_random", "oracle_is_eager"} & set(context.findings.details["accuracy"])


@pytest.mark.parametrize("backend", daily_first(BACKENDS[::-1], num_daily=1))
def test_each_run_gets_the_inputs_that_the_first_one_got(backend: str) -> None:
    inputs = {"token": models.rows(), "cache": torch.randn(models.ROWS, 7, models.WIDTH)}
    assert codes(measured(models.Writing(), inputs, backend=backend)) == []


@pytest.mark.parametrize("backend", daily_first(BACKENDS, num_daily=1))
def test_a_row_that_is_no_number_in_eager_is_none_anywhere(backend: str) -> None:
    mask = torch.ones(models.ROWS, models.ROWS, dtype=torch.bool).tril(-1)
    measured(models.MaskedRow(), {"x": models.rows(), "mask": mask}, backend=backend)


class Wrong(models.Dropping):
    """Dropout, and an answer that only the compiled code gives."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y * 1.05 if torch.compiler.is_compiling() else y


class OtherPlaces(models.Banning):
    """Compiled code bans another token."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y.roll(1, -1) if torch.compiler.is_compiling() else y


@pytest.mark.parametrize(("make", "phase"), [(Wrong, TRAINING), (OtherPlaces, INFERENCE)])
def test_a_wrong_answer_is_still_inaccurate(make: Callable[[], nn.Module], phase: Phase) -> None:
    forget_compiled()
    model = make().train(phase is TRAINING)
    context = make_context(model, {"x": models.rows()}, phase=phase, num_rounds=5)
    assert launch._measure(context).reason


def test_numbers_that_cannot_be_aligned_are_not_checked() -> None:
    other = make_context(
        models.Dropping(0.3).train(), {"x": models.rows()}, phase=TRAINING, backend="onnxruntime"
    )
    other.findings.details["accuracy"] = {"parts": {}}
    assert check_aligned(other) == ""
    assert codes(other) == ["accuracy-not-checked"]
    assert "onnxruntime" in other.findings.details["accuracy"]["not_checked"]
    assert "parts" not in other.findings.details["accuracy"]


@pytest.mark.parametrize("backend", daily_first(BACKENDS, num_daily=1))
def test_eager_compiles_nothing_that_its_author_compiles(backend: str) -> None:
    context = make_context(
        models.CompiledByItsAuthor().eval(), {"x": models.rows()}, backend=backend, num_rounds=5
    )
    forget_compiled()
    launch_warnings = context.findings.warnings
    assert launch._measure(context).reason == ""
    assert context.subject.compiles_itself
    (warning,) = (item for item in launch_warnings if item.code == "eager-compiles")
    assert "ordinary_models.py:" in warning.text


@pytest.mark.parametrize(
    ("make", "holder", "backend"),
    daily_first(
        [
            (models.Hoarding, "`history`", "eager"),
            (models.HoardingElsewhere, "", "eager"),
            (models.Hoarding, "`history`", "inductor"),
            (models.HoardingElsewhere, "", "inductor"),
        ],
        num_daily=2,
    ),
)
def test_memory_that_each_iteration_leaves_is_reported(
    make: Callable[[], nn.Module], holder: str, backend: str
) -> None:
    context = measured(make(), backend=backend)
    growth = context.findings.details.get("memory_growth")
    if not holder and backend == "inductor":
        # Only eager's allocations are recorded on a CPU.
        assert growth is None
        return
    assert growth is not None
    assert growth["bytes_per_iteration"] == 4 * models.ROWS * models.WIDTH
    (warning,) = (item for item in context.findings.warnings if item.code == "memory-grows")
    assert holder in warning.text


class Graph(nn.Module):
    """A sparse matrix and a container that holds itself, in attributes of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(models.WIDTH, models.WIDTH)
        self.adjacency = torch.eye(models.ROWS).to_sparse()
        self.registry: dict[str, object] = {"rows": [torch.ones(3)]}
        self.registry["self"] = self.registry

    def forward(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(self.adjacency, self.layer(x))


def test_attributes_of_any_kind_are_counted_as_alive() -> None:
    context = measured(Graph(), backend="eager")
    # The matrix of the fp64 copy is in fp32, since no conversion reaches it.
    assert codes(context) == ["no-fp64-oracle"]
    assert context.findings.details["accuracy"]["oracle_is_eager"] == ["outputs"]
    # The indices and the values of the sparse matrix, and the three numbers.
    own = held_bytes(context.subject)
    assert own == {"adjacency": models.ROWS * (2 * 8 + 4), "registry": 3 * 4}


class Raising(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError(f"no kernel for {tuple(x.shape)}")


def test_an_error_of_the_model_is_not_taken_for_a_compilation() -> None:
    context = make_context(Raising(), {"x": models.rows()}, backend="eager")
    with pytest.raises(RuntimeError, match="no kernel for"):
        turn_own_compilation_off(context.subject)
    assert not context.subject.compiles_itself
