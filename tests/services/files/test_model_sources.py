"""The text of models' files, stored with a run."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.files.model_sources import (
    MAX_SOURCE_BYTES,
    SourceAttacher,
    hashes_of,
    kept_sources,
    source_of,
)
from tests.support.builders import make_case, make_result, make_run


def document(*files: Path) -> Any:
    return json.loads(source_of(files).text)


def model(folder: Path, *, keep_source: bool = True) -> ModelSpec:
    return ModelSpec(
        name="net",
        family="own",
        build=f"{folder / 'net.py'}:build",
        summary="",
        sizes={},
        keep_source=keep_source,
    )


def test_a_model_keeps_its_files_if_the_setting_is_on(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import parts\n")
    (tmp_path / "parts.py").write_text("x = 1\n")
    assert kept_sources([model(tmp_path, keep_source=False)]) == {}
    text = kept_sources([model(tmp_path)])["net"].text
    assert json.loads(text) == {
        "files": {"net.py": "import parts\n", "parts.py": "x = 1\n"},
        "is_cut": False,
    }
    assert kept_sources([model(tmp_path / "nowhere")]) == {}


def test_a_link_to_a_file_elsewhere_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("password")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "net.py").write_text("import parts\n")
    (folder / "parts.py").symlink_to(tmp_path / "secret.txt")
    source = kept_sources([model(folder)])["net"]
    assert list(json.loads(source.text)["files"]) == ["net.py"]


def test_hostile_names_and_bytes_are_text(tmp_path: Path) -> None:
    entry = tmp_path / "net.py"
    entry.write_bytes(b"a\xff\0b")
    other = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff<b>.py"))
    other.write_bytes(b"")
    document_of = document(entry, other, tmp_path / "removed.py")
    assert document_of["files"] == {"net.py": "a\ufffd\ufffdb", "\ufffd<b>.py": ""}
    json.dumps(document_of).encode("utf-8")


def test_large_files_are_cut_and_say_so(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.write_text("x" * (MAX_SOURCE_BYTES - 10))
    cut = document(*paths)
    assert [len(text) for text in cut["files"].values()] == [MAX_SOURCE_BYTES - 10, 10]
    assert cut["is_cut"] is True
    assert document(paths[0])["is_cut"] is False


def test_the_first_result_of_a_model_carries_the_source_that_the_run_recorded(
    tmp_path: Path,
) -> None:
    (tmp_path / "net.py").write_text("x = 1\n")
    sources = kept_sources([model(tmp_path)])
    run = make_run(environment={"model_sources": hashes_of(sources)})
    result = replace(make_result(case=make_case("net")), sources=())
    attacher = SourceAttacher(sources)
    other = make_result(case=make_case("bert"))
    assert attacher.attach(other, run=run) == other
    assert attacher.attach(result, run=run).sources == (sources["net"],)
    assert attacher.attach(result, run=run).sources == ()
    # The files changed since the run began.
    assert SourceAttacher(sources).attach(result, run=make_run()).sources == ()
