"""Trace files on the command line, as opposed to result files."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

from compile_hud.db.errors import NotFoundError
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.protocol.messages import notes_path
from compile_hud.runner.traces.profile import KernelReport, load_kernel_notes, read_kernels

# A result file has this word at its beginning; a trace never has it.
_OF_A_RESULT = b'"schema_version"'
_HEAD_BYTES = 4096
# This value makes zlib expect the header of gzip.
_GZIP = zlib.MAX_WBITS | 16
# File names end like this; names of runs and revisions do not.
_ENDINGS = (".json", ".json.gz")


def check_file_name(name: str) -> None:
    """Raise NotFoundError if the name of a run is that of a missing file."""
    if name.endswith(_ENDINGS) and not Path(name).is_file():
        raise NotFoundError(
            f"there is no file {name}. Name a trace of torch.profiler or a result file of"
            " `hud run --json` by its path, and a run of the store by its id or revision",
            run=name,
        )


def is_result_file(path: Path) -> bool:
    """Return whether `path` is a file of results, and no trace."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    # zlib raises for unpacked content. An incomplete gzip file raises later, when it is read.
    with contextlib.suppress(zlib.error):
        head = zlib.decompressobj(wbits=_GZIP).decompress(head, _HEAD_BYTES)
    return _OF_A_RESULT in head


def read_trace(path: Path) -> KernelReport:
    """Return the kernels of a trace, with the code from its notes if they are next to it."""
    notes = notes_path(path)
    return read_kernels(
        path,
        notes=load_kernel_notes(notes) if notes.is_file() else KernelNotes(),
        latency_s=None,
        peaks={},
    )


def device_of(report: KernelReport) -> str:
    """Return the names of the devices of a trace, "" for a GPU without a name."""
    is_cpu = report.profile.busy is None
    return ", ".join(report.devices) or ("CPU" if is_cpu else "")
