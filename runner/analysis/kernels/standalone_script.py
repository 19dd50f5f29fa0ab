"""A script that runs one generated kernel alone: its code, similar inputs, and a loop.

The script needs torch and nothing of ours. It compiles C++ through the call in Inductor's modules
(`AsyncCompile.cpp_pybinding`), with the flags of the installed torch. Triton code is Inductor's,
its autotuner included.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from string import Template
from typing import Any, TypeGuard

from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.results import Case, Run
from compile_hud.db.shared.text import counted, printable
from compile_hud.runner.analysis.errors import NoKernelScript

SIGNATURE = re.compile(r'extern "C"\s+(?:\w+\s+)*?void\s+kernel\(([^)]*)\)')
_PARAMETER = re.compile(r"\s*(?P<type>[\w:\s<>]+?\**)\s*\b\w+\s*")
TEAM = re.compile(r"num_threads\((\d+)\)")
_FUNCTION = re.compile(r"^def (\w+)\(([^)]*)\)", re.MULTILINE)
# Inductor's Triton kernels use this prefix for read-only arguments.
_ONLY_READ = "in_ptr"
_DTYPE = re.compile(r"[a-z][a-z0-9_]*")

_HEAD = Template('''\
"""$title

Inputs have the dtypes, sizes and strides of the kernel's first call, and values from 0 to 1;
integers are 0, since they may be indices. Under the profiler one call took $mean_us us.
"""

''')

_INPUTS = Template("""

def strided(dtype, sizes, strides):
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides))
    length = reach + 1 if all(sizes) else 0
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.rand(length, device="$device").to(dtype)
    else:
        values = torch.zeros(length, dtype=dtype, device="$device")
    return torch.as_strided(values, sizes, strides)


def arguments():
    torch.manual_seed(0)
$inputs
    return [$names]


def kept(values):
    # A kernel may write where it reads: of these arguments each call gets the same values again.
    written = (values[place].untyped_storage() for place in $written)
    return [(storage, storage.clone()) for storage in written]


def restore(storages):
    for storage, before in storages:
        storage.copy_(before)

""")

_CPP_HEAD = """\
import statistics
import time

import torch
from torch._inductor.async_compile import AsyncCompile

"""

_CPP_LOOP = Template("""
def load():
    torch.set_num_threads($num_threads)
    compiler = AsyncCompile()
    found = {"kernel": compiler.cpp_pybinding($types, SOURCE)}
    compiler.wait(found)
    return found["kernel"]


def seconds_of(kernel, num_calls):
    values = arguments()
    storages, total_s = kept(values), 0.0
    for _ in range(num_calls):
        restore(storages)
        start_s = time.perf_counter()
        kernel(*values)
        total_s += time.perf_counter() - start_s
    return total_s / num_calls


def main():
    kernel = load()
    num_calls = max(1, int(0.005 / min(seconds_of(kernel, 1) for _ in range(3))))
    samples = [seconds_of(kernel, num_calls) * 1e6 for _ in range(20)]
    middle, least = statistics.median(samples), min(samples)
    print(f"{middle:.3f} us a call (median of 20), {least:.3f} us at best")


if __name__ == "__main__":
    main()
""")

_TRITON_HEAD = """\
import statistics

import torch

"""

_TRITON_LOOP = Template("""
def milliseconds_of(stream):
    values = arguments()
    storages, events = kept(values), []
    for _ in range(100):
        restore(storages)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        $kernel.run(*values, stream=stream)
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return sum(start.elapsed_time(end) for start, end in events) / len(events)


def main():
    stream = torch.cuda.current_stream().cuda_stream
    # The first call compiles each of its configurations and takes the fastest.
    milliseconds_of(stream)
    samples = [milliseconds_of(stream) * 1e3 for _ in range(20)]
    middle, least = statistics.median(samples), min(samples)
    print(f"{middle:.3f} us a call (median of 20), {least:.3f} us at best")


if __name__ == "__main__":
    main()
""")


def title_of(kernel: Kernel, *, run: Run, case: Case) -> str:
    """Return the first line of a kernel's script: its name, its case and its run."""
    return (
        f"{kernel.name} alone, as {case.key} of run {run.id} called it under torch {run.revision}."
    )


def script_of(kernel: Kernel, source: KernelSource, *, title: str) -> str:
    """Return a Python script that runs `kernel`, whose code is `source`, and prints its time.

    Raises NoKernelScript, with the reason, where too little is known of the kernel.
    """
    arguments = kernel.launch.get("arguments")
    if not isinstance(arguments, list) or not arguments:
        raise NoKernelScript(
            f"no call of {printable(kernel.name)} was recorded, in an old result or a replayed CUDA"
            " graph. Measure again with max-autotune-no-cudagraphs, which replays none",
            kernel=kernel.name,
            problem="no-call",
        )
    head = _HEAD.substitute(title=_in_docstring(title), mean_us=f"{kernel.mean_s * 1e6:.3f}")
    if source.language == "cpp":
        return head + _cpp(source.text, arguments=arguments)
    return head + _triton(kernel, source.text, arguments=arguments)


def _in_docstring(title: str) -> str:
    return printable(title).replace("\\", "/").replace('"', "'")


def _cpp(text: str, *, arguments: Sequence[Any]) -> str:
    types = _argument_types(text)
    if len(types) != len(arguments):
        raise NoKernelScript(
            f"the code takes {counted(len(types), 'argument')} and the call that was seen had "
            f"{len(arguments)}: they do not belong together",
            num_parameters=len(types),
            num_arguments=len(arguments),
        )
    if "'''" in text or text.endswith(("\\", "'")):
        raise NoKernelScript("the code has quotes that Inductor would not write", problem="quotes")
    threads = TEAM.search(text)
    loop = _CPP_LOOP.substitute(types=repr(types), num_threads=threads.group(1) if threads else "1")
    are_read = [kind.startswith("const ") for kind in types]
    inputs = _inputs(arguments, device="cpu", are_only_read=are_read)
    return f"{_CPP_HEAD}SOURCE = r'''\n{text}\n'''\n{inputs}{loop}"


def _argument_types(text: str) -> list[str]:
    """Return the types of the function's parameters, as Inductor hands them to its compiler."""
    signature = SIGNATURE.search(text)
    parameters = signature.group(1).split(",") if signature else []
    matches = [_PARAMETER.fullmatch(parameter) for parameter in parameters]
    types = [match["type"] for match in matches if match]
    if not types or len(types) < len(matches):
        raise NoKernelScript(
            "the code has no function kernel(...) as Inductor writes it for a CPU; `--source` shows"
            " it",
            problem="no-cpu-function",
        )
    return types


def _triton(kernel: Kernel, text: str, *, arguments: Sequence[Any]) -> str:
    functions = {name: names.split(",") for name, names in _FUNCTION.findall(text)}
    if not functions:
        raise NoKernelScript(
            "the code defines no function; `--source` shows it", problem="no-function"
        )
    # A kernel's own helpers precede it.
    name = kernel.name if kernel.name in functions else [*functions][-1]
    are_read = [parameter.strip().startswith(_ONLY_READ) for parameter in functions[name]]
    inputs = _inputs(arguments, device="cuda", are_only_read=are_read)
    return f"{_TRITON_HEAD}{text}\n{inputs}{_TRITON_LOOP.substitute(kernel=name)}"


def _inputs(arguments: Sequence[Any], *, device: str, are_only_read: Sequence[bool]) -> str:
    lines = [f"    value_{index} = {_input(item, index)}" for index, item in enumerate(arguments)]
    names = ", ".join(f"value_{index}" for index in range(len(arguments)))
    written = [
        index
        for index, (item, is_only_read) in enumerate(zip(arguments, are_only_read, strict=False))
        if isinstance(item, dict) and not is_only_read
    ]
    return _INPUTS.substitute(device=device, inputs="\n".join(lines), names=names, written=written)


def _input(item: Any, index: int) -> str:
    if isinstance(item, bool | int | float) and math.isfinite(item):
        return repr(item)
    if isinstance(item, dict):
        same = item.get("same_as")
        if _is_count(same) and same < index:
            return f"value_{same}"
        dtype, sizes, strides = (item.get(name) for name in ("dtype", "sizes", "strides"))
        is_named = isinstance(dtype, str) and _DTYPE.fullmatch(dtype)
        if is_named and _are_counts(sizes) and _are_counts(strides) and len(sizes) == len(strides):
            return f"strided(torch.{dtype}, {sizes}, {strides})"
    raise NoKernelScript(
        f"argument {index + 1} of the kernel is neither a tensor nor a number: {item!r:.100}",
        argument=index + 1,
    )


def _are_counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(_is_count(item) for item in value)


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0
