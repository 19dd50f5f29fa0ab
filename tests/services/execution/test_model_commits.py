"""The commits of models, read from git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.execution.model_commits import ZOO, model_commits
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


def test_a_model_has_the_commit_of_its_folder_and_says_when_that_is_not_all(
    repository: Path,
) -> None:
    git(repository, "add", "net.py")
    git(repository, "commit", "--quiet", "--message", "One")
    commit = git(repository, "rev-parse", "HEAD")[:10]
    assert model_commits([own_model(repository)]) == {"net": commit}
    (repository / "net.py").write_text("x = 2\n")
    assert model_commits([own_model(repository)]) == {"net": f"{commit}+changes"}


def test_a_hook_that_names_another_repository_changes_no_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "add", "net.py")
    git(repository, "commit", "--quiet", "--message", "One")
    commits = model_commits([own_model(repository)])
    monkeypatch.setenv("GIT_DIR", str(repository / "elsewhere"))
    assert model_commits([own_model(repository)]) == commits != {}


def test_a_model_that_git_does_not_track_has_no_commit(repository: Path, tmp_path: Path) -> None:
    assert model_commits([own_model(repository)]) == {}
    (tmp_path / "other.py").touch()
    git(repository, "add", "other.py")
    git(repository, "commit", "--quiet", "--message", "Another")
    (tmp_path / "inner").mkdir()
    assert model_commits([own_model(tmp_path / "inner")]) == {}


def test_without_git_there_is_no_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert model_commits([own_model(repository)]) == {}


def test_the_zoo_is_one_and_a_module_elsewhere_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "compile_hud.runner.execution.model_commits._commit", lambda _folder: "0123456789"
    )
    module = ModelSpec(name="mod", family="own", build="mine.mod", summary="", sizes={})
    specs = [*make_catalog("bert", "gpt2").values(), module]
    assert model_commits(specs) == {ZOO: "0123456789"}
