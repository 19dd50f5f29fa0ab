"""Keep the text of models' files with a run, where `[models.X] keep_source` asks for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.shared.model_sources import MODEL_LANGUAGE, source_hash, to_text
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.files.model_files import model_files

# The code of a model is smaller; what is larger is generated, or data.
MAX_SOURCE_BYTES = 256 * 1024


def kept_sources(specs: Iterable[ModelSpec]) -> dict[str, KernelSource]:
    """Return the source of each model that keeps it, by model, without models without a file."""
    sources = {}
    for spec in specs:
        files = model_files(spec.build, folder=Path.cwd()) if spec.keep_source else ()
        if files:
            sources[spec.name] = source_of(files)
    return sources


def source_of(files: Sequence[Path]) -> KernelSource:
    """Return the text of `files`, the first MAX_SOURCE_BYTES of all together.

    A file that a link leads to elsewhere is left out: it may be anything.
    """
    roots = (files[0].parent, Path(os.path.realpath(Path.cwd())))
    files = [path for path in files if any(path.is_relative_to(root) for root in roots)]
    texts: dict[str, str] = {}
    left, is_cut = MAX_SOURCE_BYTES, False
    for path in files:
        try:
            content = path.read_bytes()
        except OSError:
            # The file was removed a moment ago; the launch fails with the reason.
            continue
        is_cut = is_cut or len(content) > left
        if content and not left:
            continue
        name = os.path.relpath(path, files[0].parent)
        texts[_storable(os.fsencode(name))] = _storable(content[:left])
        left -= min(left, len(content))
    text = to_text(texts, is_cut=is_cut)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return KernelSource(hash=digest, language=MODEL_LANGUAGE, text=text)


def hashes_of(sources: Mapping[str, KernelSource]) -> dict[str, str]:
    """Return the hash of each source, by model: the fact of a run."""
    return {name: source.hash for name, source in sources.items()}


class SourceAttacher:
    """Attach the source of each model to its first result: a store has each source once."""

    def __init__(self, sources: Mapping[str, KernelSource]) -> None:
        self._pending = dict(sources)

    def attach(self, result: CaseResult, *, run: Run) -> CaseResult:
        """Return `result`, with the source of its model if that is due and as `run` recorded it."""
        model = result.case.model
        source = self._pending.pop(model, None)
        # The files may have changed since the beginning of a resumed run.
        if source is None or source_hash(run, model) != source.hash:
            return result
        return replace(result, sources=(*result.sources, source))


def _storable(content: bytes) -> str:
    """Return `content` as text, with a replacement for what is no UTF-8 and for NUL."""
    return content.decode("utf-8", "replace").replace("\0", "\ufffd")
