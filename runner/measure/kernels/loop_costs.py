"""The bytes and operations of one call of a generated kernel, counted in the loops of its code.

When Inductor defines a kernel it knows its loops: the elements of buffers that they load and store,
and the operators in between. This module counts

- bytes: every element read that the kernel did not write itself, once, and every element written.
  An overwritten input is read and written. A table look-up reads the row and not the table. A
  broadcast reads only its source. Overlapping reads count twice, but never more than the
  whole buffer;
- operations: one for each element and computing operator; a reduction counts for each input
  element. An `exp` is one like an `add`: an estimate. Operators that only move or name values are
  none. The operations of a product from a template are those of the product
  (runner/protocol/operator_costs.py).

Dynamic sizes are those that the graph was compiled for. The structures are internals of torch. Only
this file reads them, and it raises any error where they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compile_hud.runner.protocol.operator_costs import Tensor, Work, work_of

_READS = ("LOAD", "LOAD_SEED", "BUCKETIZE")
_WRITES = ("STORE", "STORE_REDUCTION")
# The prefix of values that an index looks up, and the node that names one.
_INDIRECT, _SET = "indirect", "set_"
_READ_AND_WRITTEN = "atomic_add"
# The nodes of a loop that get values from memory, or from a part that runs under a mask.
_VALUES = ("load", "masked_subblock", "bucketize")
# The calls of a loop that compute no value from others: they move, name or convert one.
_MOVING = (
    "load load_seed store store_reduction constant index_expr to_dtype to_dtype_bitcast identity"
    " check_bounds indirect_indexing output device_assert_async"
)
_NO_OPERATIONS = frozenset(_MOVING.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWork:
    """The bytes and operations of one call.

    `dtype` is that of a product, empty for other loops: no peak was measured for them.
    """

    num_bytes: float
    flops: float | None
    dtype: str = ""


def work_of_loops(nodes: Iterable[Any], *, arguments: Any) -> LoopWork:
    """Return the work of one call of a kernel that consists of these nodes of the scheduler.

    `arguments` are the KernelArgs of the kernel. Raises any error of torch's structures if they
    differ from the ones known here.
    """
    leaves = [leaf for node in nodes if hasattr(node, "get_nodes") for leaf in node.get_nodes()]
    traffic = _BufferTraffic(arguments)
    flops: list[float | None] = []
    dtype = ""
    for index, leaf in enumerate(leaves):
        if leaf._body is None:
            product = _product_of(leaf.node.origins)
            flops.append(product.flops)
            dtype = product.dtype
            traffic.add_template(leaf.get_buffer_names())
        else:
            loop = _Loop(leaf._body)
            flops.append(float(loop.num_elements * loop.num_operators()))
            traffic.add(loop, position=index)
    traffic.add_inputs()
    known = [number for number in flops if number is not None]
    return LoopWork(
        num_bytes=float(traffic.num_bytes()),
        # A kernel that only moves data has no known operations.
        flops=(sum(known) or None) if len(known) == len(flops) else None,
        dtype=dtype,
    )


class _Loop:
    """The body of one loop nest: its accesses by how many elements they touch, its operators."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._sizes = {symbol.name: _whole(size) for symbol, size in body.var_ranges.items()}
        self._graphs = {name: block.graph for name, block in body.subblocks.items()}
        nodes = [node for graph in (self._graph, *self._graphs.values()) for node in graph.nodes]
        self._indirect = {
            str(node.target).removeprefix(_SET): node
            for node in nodes
            if str(node.target).startswith(_SET + _INDIRECT)
        }

    @property
    def _graph(self) -> torch.fx.Graph:
        graph: torch.fx.Graph = self._body.root_block.graph
        return graph

    @property
    def num_elements(self) -> int:
        """Return the number of iterations of the innermost part."""
        return math.prod(self._sizes.values())

    def num_operators(self) -> int:
        """Return the number of distinct values that the innermost part computes from others."""
        return sum(len(_operators(graph)) for graph in (self._graph, *self._graphs.values()))

    def accesses(self, sorts: Iterable[str]) -> Iterator[tuple[str, Any, str | None]]:
        """Yield buffer, index and mode of each access of these kinds."""
        for what, entries in self._body.memory_usage.items():
            if what.name in sorts:
                for entry in entries:
                    index = self._body.indexing_exprs[entry.index_name]
                    yield entry.buffer_name, index, entry.mode

    def accessed(self, index: Any, *, position: int) -> tuple[Any, int]:
        """Return a key of the elements that an index visits, and their number.

        The key is the first element and the number; `position` distinguishes the look-ups of a
        kernel's loops.
        """
        symbols = {symbol.name: symbol for symbol in getattr(index, "free_symbols", ())}
        number = math.prod(self._sizes[name] for name in self._variables(symbols))
        if any(name.startswith(_INDIRECT) for name in symbols):
            return (position, index), number
        zeros = {symbol: 0 * symbol for name, symbol in symbols.items() if name in self._sizes}
        return (index.xreplace(zeros) if zeros else index, number), number

    def _variables(self, names: Iterable[str]) -> set[str]:
        """Return the variables of the loop on which these symbols depend, through look-ups."""
        variables: set[str] = set()
        for name in names:
            if name in self._sizes:
                variables.add(name)
            elif name.startswith(_INDIRECT):
                node = self._indirect[name]
                for above in self._above(node):
                    index = self._body.indexing_exprs[above]
                    variables |= self._variables(symbol.name for symbol in index.free_symbols)
        return variables

    def _above(self, node: torch.fx.Node) -> set[str]:
        """Return the names of the indices from which the value of a node was computed."""
        symbols: set[str] = set()
        seen: set[torch.fx.Node] = set()
        todo = list(node.all_input_nodes)
        while todo:
            above = todo.pop()
            if above in seen:
                continue
            seen.add(above)
            todo += above.all_input_nodes
            if above.target == "get_index":
                symbols.add(str(above.args[0]))
            elif above.target in self._graphs:
                todo += self._graphs[str(above.target)].nodes
        return symbols


def _operators(graph: torch.fx.Graph) -> list[str]:
    """Return the operators that compute values from the loaded ones, equal ones once.

    An operator that depends only on the loop's index, such as a check of bounds, does not count.
    """
    numbers: dict[torch.fx.Node, int] = {}
    places: dict[tuple[str, str], int] = {}
    values: set[torch.fx.Node] = set()
    names = []
    for node in graph.nodes:
        name = str(node.target)
        key = (name, repr(torch.fx.node.map_arg((node.args, node.kwargs), numbers.__getitem__)))
        is_new = key not in places
        numbers[node] = places.setdefault(key, len(places))
        has_values = not values.isdisjoint(node.all_input_nodes)
        if has_values or name.startswith(_VALUES):
            values.add(node)
        is_added = _READ_AND_WRITTEN in node.args
        is_operator = node.op == "call_method" and (is_added or name not in _NO_OPERATIONS)
        if is_new and has_values and is_operator:
            names.append(name)
    return names


class _BufferTraffic:
    """The elements of each buffer that a kernel reads from outside and writes to it."""

    def __init__(self, arguments: Any) -> None:
        self._arguments = arguments
        self._read: dict[str, dict[Any, int]] = {}
        self._written: dict[str, dict[Any, int]] = {}
        # The buffers by pointer of the kernel: several buffers at one address are one.
        self._names: dict[str, str] = {}

    def add(self, loop: _Loop, *, position: int) -> None:
        """Count the loads of one loop, then its stores."""
        for name, index, _mode in loop.accesses(_READS):
            if _real(name) not in self._names:
                _note(self._read, _real(name), loop, index=index, position=position)
        for name, index, mode in loop.accesses(_WRITES):
            real = _real(name)
            if mode == _READ_AND_WRITTEN and real not in self._names:
                _note(self._read, real, loop, index=index, position=position)
            self._names[real] = pointer = self._pointer(real)
            if pointer:
                _note(self._written, pointer, loop, index=index, position=position)

    def add_template(self, names: Iterable[str]) -> None:
        """Count the buffers of these names; a template writes its outputs completely."""
        for name in map(_real, names):
            self._names[name] = pointer = self._pointer(name)
            if pointer:
                self._written[pointer] = {None: _numel(name)}

    def add_inputs(self) -> None:
        """Count the inputs that no loop reads completely: the template reads them."""
        for name in self._arguments.input_buffers:
            self._read.setdefault(name, {None: _numel(name)})

    def _pointer(self, name: str) -> str:
        """Return the kernel's argument for a buffer, empty for an internal one."""
        inplace = self._arguments.inplace_buffers.get(name)
        if inplace is not None:
            return str(getattr(inplace, "inner_name", ""))
        pointer = self._arguments.output_buffers.get(name)
        return pointer if isinstance(pointer, str) else ""

    def num_bytes(self) -> int:
        """Return the bytes of all buffers."""
        names = {pointer: name for name, pointer in self._names.items()}
        written = {names[pointer]: parts for pointer, parts in self._written.items()}
        return sum(
            min(sum(parts.values()), _numel(name)) * _graph().get_dtype(name).itemsize
            for side in (self._read, written)
            for name, parts in side.items()
        )


def _note(
    side: dict[str, dict[Any, int]], name: str, loop: _Loop, *, index: Any, position: int
) -> None:
    """Add an access; accesses of any loop to the same elements count once."""
    part, number = loop.accessed(index, position=position)
    side.setdefault(name, {})[part] = number


def _graph() -> Any:
    from torch._inductor.virtualized import V

    return V.graph


def _real(name: str) -> str:
    """Return the changed buffer if `name` is its name after a mutation, else `name`."""
    real: Mapping[str, str] = _graph().scheduler.mutation_real_name
    return real.get(name, name)


def _numel(name: str) -> int:
    return _whole(_graph().get_numel(name))


def _whole(size: Any) -> int:
    """Return a size as a number; a dynamic size is the one that the graph was compiled for."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if isinstance(size, int) or size.is_number:
        return int(size)
    if free_unbacked_symbols(size):
        raise LookupError("the size depends on data")
    return int(_graph().sizevars.optimization_hint(size))


def _product_of(origins: Iterable[torch.fx.Node]) -> Work:
    """Return the work of the one product among the nodes of a template."""
    works = [_work_of_node(node) for node in origins if node.op == "call_function"]
    products = [work for work in works if work.flops is not None]
    return products[0] if len(products) == 1 else Work()


def _work_of_node(node: torch.fx.Node) -> Work:
    # The target in a graph is aten.addmm.default or mkl._mkl_linear, for example.
    name = "::".join(str(node.target).split(".")[:2])
    tensors = [_tensor_of(item) for item in node.args]
    return work_of(name, tensors=tensors, values=[str(item) for item in node.args])


def _tensor_of(item: Any) -> Tensor | None:
    value = item.meta.get("val") if isinstance(item, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    sizes = tuple(
        size if isinstance(size, int) else int(size.node.require_hint()) for size in value.shape
    )
    return Tensor(sizes, str(value.dtype).removeprefix("torch."), value.dtype.itemsize)
