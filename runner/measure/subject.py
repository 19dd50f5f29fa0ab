"""The executed subject: the model with its inputs, as steps of one phase.

Inference is one forward call under no_grad in eval mode. Training is forward, loss, backward and an
AdamW step in train mode (dropout is off in the zoo). Eager and compiled share parameters and, in
training, the optimizer, so that both work on the same numbers in the same memory. Eager runs with
compilation off if the model's own code calls torch.compile.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.models_zoo.building.loader import check_names, load_builder
from compile_hud.runner.measure.accuracy.outputs import (
    GRADIENTS,
    Result,
    as_vector,
    dense,
    flatten_outputs,
    floating_tensors,
)
from compile_hud.runner.measure.accuracy.start_state import MODULE_ATTRIBUTES, StartState
from compile_hud.runner.measure.checkout import check_imports, enter
from compile_hud.runner.measure.device import Device
from compile_hud.runner.protocol.messages import LaunchRequest

# AdamW runs the same kernels at any rate. At zero the weights stay those of the oracle bit for bit,
# and the last iteration does the arithmetic of the first one.
LEARNING_RATE = 0.0

# GradScaler begins with the first scale and reduces it after an overflow. Unscaled, most gradients
# are zero in half precision.
LOSS_SCALES = (65536.0, 1024.0, 1.0)

# Weights of every other dtype are in fp32.
WEIGHT_DTYPES = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16}
AUTOCAST_DTYPES = {Dtype.BF16_AUTOCAST: torch.bfloat16, Dtype.FP16_AUTOCAST: torch.float16}

# Deeper containers, and longer ones such as a vocabulary, are not searched for tensors.
_MAX_DEPTH, _MAX_ITEMS = 4, 10_000
# A reason has one line.
_MAX_NAMES = 3
# The methods that return the tensors of a sparse one.
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}

Loss = Callable[[Any, Mapping[str, torch.Tensor]], torch.Tensor]
Forward = Callable[..., Any]


def mean_square(outputs: object, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the sum of the outputs' mean squares, in fp32: the loss of a model without its own."""
    del inputs
    total = torch.zeros(())
    for tensor in floating_tensors(outputs):
        total = total.to(tensor.device) + dense(tensor).float().square().mean()
    return total


@dataclass(slots=True)
class Subject:
    """A model on its device with inputs, ready to execute one phase."""

    model: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    phase: Phase
    dtype: Dtype
    device: Device
    loss: Loss
    optimizer: torch.optim.Optimizer | None = None
    scaler: torch.amp.GradScaler | None = None
    # Without it results start from whatever the run before left.
    start: StartState | None = None
    # Compilation is off while `model` itself is called.
    compiles_itself: bool = False
    # The model counts its calls, or keeps a cache: results start from its first attributes too.
    has_own_state: bool = False

    def remember_start(self, *, seed: int) -> None:
        """Let each later `result` start from the present inputs and buffers, and from `seed`."""
        attributes = (tensor for _, tensor in held_tensors(self.model))
        tensors = (*self.inputs.values(), *self.model.buffers(), *attributes)
        self.start = StartState.of(tensors, seed=seed, model=self.model)

    def start_over(self) -> None:
        """Restore the inputs, buffers and random numbers of the start, if it was remembered."""
        if self.start is None:
            return
        if self.has_own_state:
            self.start.restore_modules()
        self.start.restore()

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the autocast context of this dtype, a null context without one."""
        products = AUTOCAST_DTYPES.get(self.dtype)
        if products is None:
            return nullcontext()
        return torch.autocast(self.device.kind, dtype=products)

    def step(self, forward: Forward) -> Callable[[], object]:
        """Return one iteration of this phase that goes through `forward`."""
        if self.phase is Phase.INFERENCE:
            return lambda: self._infer(forward)
        return lambda: self._train(forward)

    def result(self, forward: Forward) -> Result:
        """Return the result to check: the outputs and, in training, `gradients`.

        Each result starts over, so that several can be compared. The gradients are separate, since
        they are so much smaller that the outputs would hide any error in them.
        """
        if self.phase is Phase.INFERENCE:
            self.start_over()
            return flatten_outputs(self._infer(forward))
        for scale in LOSS_SCALES if self.scaler is not None else (1.0,):
            self.start_over()
            self.zero_grad()
            outputs, loss = self.forward_loss(forward, inputs=self.inputs)
            (loss * scale).backward()
            gradients = torch.cat(
                [as_vector(p.grad) for p in self.model.parameters() if p.grad is not None]
            )
            if bool(torch.isfinite(gradients).all()):
                break
        self.zero_grad()
        result = flatten_outputs(outputs)
        result.parts[GRADIENTS] = gradients / scale
        return result

    def alive(self) -> Iterator[torch.Tensor]:
        """Yield every tensor that lives between iterations."""
        tensors = [*self.model.buffers(), *self.inputs.values(), *self.model.parameters()]
        tensors += [item.grad for item in self.model.parameters() if item.grad is not None]
        if self.optimizer is not None:
            for state in self.optimizer.state.values():
                tensors += [value for value in state.values() if torch.is_tensor(value)]
        tensors += [tensor for _, tensor in held_tensors(self.model)]
        for tensor in tensors:
            yield from plain_tensors(tensor)

    def _infer(self, forward: Forward) -> object:
        with torch.no_grad(), self.autocast(), self._stance(forward):
            return forward(**self.inputs)

    def _stance(self, forward: Forward) -> AbstractContextManager[Any]:
        if not self.compiles_itself or forward is not self.model:
            return nullcontext()
        stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return stance

    def forward_loss(
        self, forward: Forward, *, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[object, torch.Tensor]:
        """Return the outputs of `forward` on `inputs` and their loss."""
        with self.autocast(), self._stance(forward):
            outputs = forward(**inputs)
            return outputs, self.loss(outputs, inputs)

    def backward(self, loss: torch.Tensor) -> None:
        """Fill the gradients from `loss`, scaled where the dtype needs it."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def optimize(self) -> None:
        assert self.optimizer is not None
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self.model.parameters():
            parameter.grad = None

    def _train(self, forward: Forward) -> None:
        self.zero_grad()
        _, loss = self.forward_loss(forward, inputs=self.inputs)
        self.backward(loss)
        self.optimize()


def build_subject(request: LaunchRequest, *, device: Device) -> Subject:
    """Return the model and inputs of `request` on `device`, in its dtype.

    Raises ModelLoadError of models_zoo, and any error of the model's own code.
    """
    checkout = request.workload.checkout
    if checkout is not None:
        enter(checkout)
    builder = load_builder(request.workload.build)
    config = request.workload.config
    model = builder.build(config)
    inputs = builder.example_inputs(config, seed=request.settings.seed)
    if checkout is not None:
        check_imports(checkout, build=request.workload.build)
    check_names(model, inputs, build=request.workload.build)
    case = request.case
    weights = WEIGHT_DTYPES.get(case.dtype, torch.float32)
    model = model.to(device=device.kind, dtype=weights)
    model.train(case.phase is Phase.TRAINING)
    subject = Subject(
        model=model,
        inputs={name: _move(tensor, device, weights) for name, tensor in inputs.items()},
        phase=case.phase,
        dtype=case.dtype,
        device=device,
        loss=builder.loss or mean_square,
    )
    subject.optimizer = optimizer_of(model, phase=case.phase)
    # bf16 has the range of fp32, so nothing underflows and no scale is needed.
    if case.phase is Phase.TRAINING and case.dtype is Dtype.FP16_AUTOCAST:
        subject.scaler = torch.amp.GradScaler(device.kind)
    if request.launch == 0:
        # Later launches compare no results.
        subject.remember_start(seed=request.settings.seed)
    return subject


def held_tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in attributes of the modules that are neither parameters nor buffers.

    The name is that of the attribute, such as `layers.0.cache`, whatever container it is.
    """
    for path, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute in MODULE_ATTRIBUTES:
                continue
            name = f"{path}.{attribute}" if path else attribute
            yield from ((name, tensor) for tensor in _tensors_in(value, seen=set()))


def _tensors_in(value: object, *, seen: set[int], depth: int = 0) -> Iterator[torch.Tensor]:
    """Yield the tensors in `value` and its containers, each container once."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = value.values()
    elif isinstance(value, list | tuple | set | deque):
        items = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = (getattr(value, item.name, None) for item in dataclasses.fields(value))
    if depth == _MAX_DEPTH or id(value) in seen:
        return
    seen.add(id(value))
    for item in itertools.islice(items, _MAX_ITEMS):
        yield from _tensors_in(item, seen=seen, depth=depth + 1)


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensors with the bytes of `tensor`: itself, or inner ones such as codes and scales.

    Neither a wrapper tensor nor a sparse one has a storage of its own.
    """
    if tensor.layout in _SPARSE_PARTS:
        for name in _SPARSE_PARTS[tensor.layout]:
            yield getattr(tensor, name)()
        return
    flatten: Callable[[], tuple[list[str], object]] | None
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    names, _ = flatten()
    for name in names:
        yield from plain_tensors(getattr(tensor, name))


def optimizer_of(
    model: torch.nn.Module, *, phase: Phase, is_fused: bool = False
) -> torch.optim.Optimizer | None:
    """Return the optimizer of `model`, None in inference; torch chooses unless it `is_fused`."""
    if phase is not Phase.TRAINING:
        return None
    return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=is_fused or None)


def fp64_twin(subject: Subject) -> Subject:
    """Return a copy of `subject` at its start in fp64 without autocast: the oracle."""
    subject.start_over()
    model = _copy_of(subject.model).double()
    inputs = {
        # Integers keep their dtype, and the twin may write to its own.
        name: _move(tensor, subject.device, torch.float64, copies=True)
        for name, tensor in subject.inputs.items()
    }
    twin = Subject(
        model=model,
        inputs=inputs,
        phase=subject.phase,
        dtype=Dtype.FP32,
        device=subject.device,
        loss=subject.loss,
        compiles_itself=subject.compiles_itself,
        has_own_state=subject.has_own_state,
    )
    if subject.start is not None:
        twin.remember_start(seed=subject.start.seed)
    return twin


def _copy_of(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of `model`; raise RuntimeError naming what belongs to an iteration's graph."""
    try:
        return copy.deepcopy(model)
    except RuntimeError:
        tensors = [*model.named_buffers(), *held_tensors(model)]
        names = [name for name, tensor in tensors if tensor.grad_fn is not None]
        if not names:
            raise
        raise RuntimeError(
            f"after a training step {', '.join(names[:_MAX_NAMES])} belongs to the graph of that"
            " step, which the next one would go through again: detach what the model stores there"
        ) from None


def _move(
    tensor: torch.Tensor, device: Device, dtype: torch.dtype, *, copies: bool = False
) -> torch.Tensor:
    target = dtype if tensor.is_floating_point() else tensor.dtype
    return tensor.to(device=device.kind, dtype=target, copy=copies)
