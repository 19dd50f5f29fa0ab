"""The commits of models, read from git."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compile_hud.db.shared.model_code import ZOO
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.execution.model_commits import (
    content_digest,
    model_commits,
)
from compile_hud.runner.files.model_files import model_files
from tests.support.fakes import make_catalog


def own_model(folder: Path) -> ModelSpec:
    return ModelSpec(
        name="net", family="own", build=f"{folder / 'net.py'}:build", summary="", sizes={}
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("x = 1\n")
    git(tmp_path, "init", "--quiet")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def committed(repository: Path) -> Path:
    """Return a repository whose one commit has the model."""
    git(repository, "add", "net.py")
    git(repository, "commit", "--quiet", "--message", "One")
    return repository


def test_a_model_has_the_last_commit_of_its_files(committed: Path) -> None:
    commit = git(committed, "rev-parse", "HEAD")[:10]
    git(committed, "commit", "--quiet", "--allow-empty", "--message", "Two")
    (committed / "other.py").write_text("y = 1\n")
    assert model_commits([own_model(committed)]) == {"net": commit}


def test_an_uncommitted_change_has_digits_of_its_content(committed: Path) -> None:
    clean = model_commits([own_model(committed)])["net"]
    revisions = []
    for text in ("x = 2\n", "x = 3\n", "x = 2\n"):
        (committed / "net.py").write_text(text)
        revisions.append(model_commits([own_model(committed)])["net"])
    assert re.fullmatch(rf"{clean}\+dirty\([0-9a-f]{{4}}\)", revisions[0])
    assert revisions[0] == revisions[2] != revisions[1]


def test_what_the_model_imports_counts_and_nothing_else(committed: Path) -> None:
    package = committed / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("from .twin import x\n")
    (package / "twin.py").write_text("x = 1\n")
    (committed / "unused.py").write_text("x = 1\n")
    (committed / "net.py").write_text("def build():\n    from parts import deep\nimport torch\n")
    files = model_files(str(committed / "net.py"), folder=committed)
    names = [str(path.relative_to(committed)) for path in files]
    assert names[0] == "net.py"
    assert sorted(names[1:]) == ["parts/__init__.py", "parts/deep.py", "parts/twin.py"]
    assert model_files("parts.deep:build", folder=committed)[0].name == "deep.py"
    before = content_digest(files)
    (package / "twin.py").write_text("x = 2\n")
    assert content_digest(files) != before


def test_checkouts_of_one_content_have_one_digest(tmp_path: Path) -> None:
    digests = set()
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "net.py").write_text("import depth\n")
        (folder / "depth.py").write_text("D = 1\n")
        digests.add(content_digest(model_files("net.py", folder=folder)))
    assert len(digests) == 1


def test_a_hook_that_names_another_repository_changes_no_commit(
    committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = model_commits([own_model(committed)])
    monkeypatch.setenv("GIT_DIR", str(committed / "elsewhere"))
    assert model_commits([own_model(committed)]) == commits != {}


@pytest.mark.parametrize("has_git", [True, False])
def test_without_a_commit_the_content_is_the_revision(
    repository: Path, has_git: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_git:
        monkeypatch.setenv("PATH", "")
    revision = model_commits([own_model(repository)])["net"]
    assert re.fullmatch(r"content\([0-9a-f]{8}\)", revision)


def test_a_model_without_a_file_has_no_revision(tmp_path: Path) -> None:
    assert model_commits([own_model(tmp_path / "nowhere")]) == {}


def test_the_zoo_is_one_and_an_installed_module_is_unknown() -> None:
    module = ModelSpec(name="mod", family="own", build="mine.mod", summary="", sizes={})
    specs = [*make_catalog("bert", "gpt2").values(), module]
    assert list(model_commits(specs)) == [ZOO]


def test_a_loop_of_links_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "net.py").symlink_to("other.py")
    (tmp_path / "other.py").symlink_to("net.py")
    assert model_files("net.py:build", folder=tmp_path) == ()
    assert model_commits([own_model(tmp_path)]) == {}
