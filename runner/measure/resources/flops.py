"""The work of one iteration: floating-point operations and bytes, counted in eager.

Operations: torch.utils.flop_counter over one eager iteration. A multiply-add is two. Matrix
products, convolutions and attention count (attention in full, also if it is causal); elementwise
work does not.

Bytes: the minimum that any implementation must move if its caches start empty and never spill. Each
part of parameters, buffers, inputs and optimizer state that an operator reads counts once, and each
part that one writes once. In inference the outputs count, in training each gradient once written
and once read. Activations do not count: they might stay in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.subject import Subject, plain_tensors

METHOD_FLOPS = "torch.utils.flop_counter over one eager iteration; a multiply-add is two"
METHOD_PARAMETERS = "elements of model.parameters(), each tensor once"
METHOD_BYTES = "distinct bytes read and written of what lives between iterations, counted in eager"
# These operators read the shape of a tensor, not its values.
SHAPE_ONLY = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like")
# They overwrite their first argument without looking at it.
OVERWRITING = ("copy_", "fill_", "zero_", "uniform_", "normal_")
# They read some rows of a table: (table, indices).
ROW_LOOKUPS = ("embedding", "_embedding_bag", "_embedding_bag_forward_only")
# They read some elements of their first argument, no more than they return.
LOOKUPS = ("index", "index_select", "gather", "take")
# Operators outside of these namespaces are user-defined, and their work is unknown.
KNOWN_NAMESPACES = ("aten", "prim", "prims", "profiler")
# Much arithmetic in one operator that has no formula here.
HEAVY_WITHOUT_FORMULA = ("mkldnn_rnn_layer", "_cudnn_rnn", "_thnn_fused_lstm_cell")

Shape = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationTotals:
    """The work of one iteration; `uncounted` names operators whose arithmetic is not included."""

    flops: int
    read_bytes: int
    written_bytes: int
    flops_by_operator: dict[str, int] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()


def report_work(context: Context) -> None:
    """Record the parameters, and the operations and bytes of one iteration.

    Operations and bytes that cannot be counted become a warning.
    """
    num_parameters = sum(item.numel() for item in context.subject.model.parameters())
    if num_parameters:
        context.findings.add("num_parameters", (float(num_parameters),), method=METHOD_PARAMETERS)
    try:
        work = count_work(context.subject)
    except (RuntimeError, TypeError, AttributeError, LookupError, AssertionError) as error:
        # A working model may fail under a dispatch mode, for example in a user-defined operator.
        # Its timings are still valid.
        context.findings.warn(
            "uncounted-work",
            f"operations and bytes cannot be counted: {type(error).__name__}: {error}"[:300],
            hint="mfu and bandwidth are missing; an operator of your own may need a dispatch rule",
        )
        return
    if work.flops:
        context.findings.add("flops", (float(work.flops),), method=METHOD_FLOPS)
    moved_bytes = work.read_bytes + work.written_bytes
    # Quantized weights are fewer bytes than those of the model that was counted.
    if moved_bytes and not context.request.workload.transform.weights:
        context.findings.add("compulsory_bytes", (float(moved_bytes),), method=METHOD_BYTES)
    context.findings.details["work"] = {
        "flops_by_operator": work.flops_by_operator,
        "read_bytes": work.read_bytes,
        "written_bytes": work.written_bytes,
    }
    if work.uncounted:
        context.findings.warn(
            "uncounted-operators",
            f"the operations of {', '.join(work.uncounted)} are not in flops",
            hint="mfu is too low by their share",
        )


def count_work(subject: Subject) -> IterationTotals:
    """Return the work of one eager iteration of `subject`."""
    subject.zero_grad()
    traffic = Traffic(subject.alive())
    with FlopCounterMode(display=False, custom_mapping=formulas()) as flops, traffic:
        outputs = subject.step(subject.model)()
    if traffic.error is not None:
        raise traffic.error
    counts = flops.get_flop_counts().get("Global", {})
    by_operator = {str(name): int(num_flops) for name, num_flops in counts.items()}
    read_bytes, written_bytes = traffic.read_bytes, traffic.written_bytes
    if subject.phase is Phase.INFERENCE:
        written_bytes += sum(traffic.new_storages(outputs).values())
    else:
        gradients = traffic.new_storages([item.grad for item in subject.model.parameters()])
        read_bytes += sum(gradients.values())
        written_bytes += sum(gradients.values())
    return IterationTotals(
        flops=sum(by_operator.values()),
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        flops_by_operator=by_operator,
        uncounted=tuple(sorted(traffic.unknown)),
    )


class Traffic(TorchDispatchMode):
    """Records the parts of the `alive` tensors that are read and written, and unknown operators."""

    supports_higher_order_operators = True

    def __init__(self, alive: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._alive = dict(_storage(tensor) for tensor in alive)
        self._reads: dict[tuple[Any, ...], int] = {}
        self._writes: dict[tuple[Any, ...], int] = {}
        self.unknown: set[str] = set()
        # An error that leaves this mode during backward would end the process.
        self.error: RuntimeError | None = None

    @property
    def read_bytes(self) -> int:
        """Return the distinct bytes read so far."""
        return self._total(self._reads)

    @property
    def written_bytes(self) -> int:
        """Return the distinct bytes written so far."""
        return self._total(self._writes)

    def new_storages(self, tensors: object) -> dict[int, int]:
        """Return the size of each storage in `tensors` that is not among those alive before."""
        items = [item for item in tree_leaves(tensors) if torch.is_tensor(item)]
        storages = dict(_storage(part) for item in items for part in plain_tensors(item))
        return {address: size for address, size in storages.items() if address not in self._alive}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Execute `func` and record its reads and writes."""
        del types
        outputs = func(*args, **(kwargs or {}))
        try:
            if isinstance(func, torch._ops.OpOverload):
                self._note(func, args, kwargs or {}, outputs=outputs)
            else:
                self._note_reads(tree_leaves((args, kwargs)))
        except RuntimeError as error:
            self.error = self.error or error
        return outputs

    def _note(
        self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: Any, *, outputs: Any
    ) -> None:
        name = func._schema.name.partition("::")[2]
        if func.namespace not in KNOWN_NAMESPACES or name in HEAVY_WITHOUT_FORMULA:
            self.unknown.add(func._schema.name)
        if func.is_view or name in SHAPE_ONLY or name.startswith("new_"):
            return
        written, read = _written_and_read(func, args, kwargs)
        if name in OVERWRITING:
            read = [item for item in read if item is not args[0]]
        if name in ROW_LOOKUPS:
            table, indices, *read = read
            row_bytes = table.element_size() * math.prod(table.shape[1:])
            self._note_part(self._reads, table, num_bytes=indices.unique().numel() * row_bytes)
        elif name in LOOKUPS:
            table, *read = read
            self._note_part(self._reads, table, num_bytes=outputs.nbytes)
        self._note_reads(read)
        for tensor in written:
            for part in plain_tensors(tensor):
                self._note_part(self._writes, part, num_bytes=part.nbytes)

    def _note_reads(self, values: Iterable[object]) -> None:
        for value in values:
            for part in plain_tensors(value) if torch.is_tensor(value) else ():
                self._note_part(self._reads, part, num_bytes=part.nbytes)

    def _note_part(
        self, parts: dict[tuple[Any, ...], int], tensor: torch.Tensor, *, num_bytes: int
    ) -> None:
        address, _ = _storage(tensor)
        if address in self._alive:
            # A part is a view: read twice it counts once, two slices of a table count both.
            part = (address, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            parts[part] = max(parts.get(part, 0), num_bytes)

    def _total(self, parts: dict[tuple[Any, ...], int]) -> int:
        totals: dict[int, int] = {}
        for (address, *_), num_bytes in parts.items():
            totals[address] = min(self._alive[address], totals.get(address, 0) + num_bytes)
        return sum(totals.values())


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def _written_and_read(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the tensors that `func` changes, and those it reads; `out=` is only changed."""
    written, read = [], []
    for declared, value in _arguments(func, args, kwargs):
        tensors = [item for item in tree_leaves(value) if torch.is_tensor(item)]
        if declared.alias_info is not None and declared.alias_info.is_write:
            written += tensors
        if not declared.is_out:
            read += tensors
    return written, read


def _arguments(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[Any, object]]:
    declared = func._schema.arguments
    yield from zip(declared, args, strict=False)
    yield from ((item, kwargs[item.name]) for item in declared if item.name in kwargs)


def attention_flops(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Return the operations of the two products of attention; heads may be shared."""
    scores = math.prod(query[:-1]) * key[-2]
    return 2 * scores * (query[-1] + value[-1])


def attention_backward_flops(
    _gradient: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any
) -> int:
    """Return the operations of five products: the scores again, and four gradients."""
    scores = math.prod(query[:-1]) * key[-2]
    return 2 * scores * (3 * query[-1] + 2 * value[-1])


def grouped_product_flops(left: Shape, right: Shape, *_: Any, **__: Any) -> int:
    """Return the operations of a grouped matrix product of several sizes."""
    rows = math.prod(left) if len(right) == 3 or len(left) == 2 else math.prod(left[1:])
    return 2 * rows * right[-1]


def formulas() -> dict[Any, Callable[..., int]]:
    """Return the formulas that flop_counter lacks, by operator, if this torch has the operator.

    flop_counter has none for attention on a CPU, and fails if heads of keys and values are shared.
    """
    by_name: dict[str, Callable[..., int]] = {
        "_scaled_dot_product_fused_attention_overrideable": attention_flops,
        "_scaled_dot_product_flash_attention_for_cpu": attention_flops,
        "_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward_flops,
        "_grouped_mm": grouped_product_flops,
    }
    for kind in ("flash", "efficient", "cudnn"):
        name = f"_scaled_dot_product_{kind}_attention"
        by_name |= {name: attention_flops, f"{name}_backward": attention_backward_flops}
    aten = torch.ops.aten
    return {
        getattr(aten, name): formula for name, formula in by_name.items() if hasattr(aten, name)
    }
