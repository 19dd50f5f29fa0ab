"""Imports from the checkout of a commit instead of the repository."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.building.loader import ModelLoadError
from compile_hud.runner.measure.checkout import check_imports, enter
from compile_hud.runner.protocol.messages import Checkout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """Return a repository with a checkout in it, both with a folder `src`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    checkout = Checkout(
        folder=str(tmp_path / "repo" / ".hud" / "checkout"), repository=str(tmp_path / "repo")
    )
    (tmp_path / "repo" / "src").mkdir(parents=True)
    Path(checkout.folder, "src").mkdir(parents=True)
    return checkout


def load(name: str, file: str | Path) -> ModuleType:
    """Stand for an import of `file`."""
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    return module


def test_the_path_leads_into_the_checkout(checkout: Checkout, tmp_path: Path) -> None:
    sys.path[:] = ["", f"{checkout.repository}/src", str(tmp_path), f"{checkout.repository}/later"]
    enter(checkout)
    # A folder that the commit does not have stays, and what is imported from it is found out.
    assert sys.path == ["", f"{checkout.folder}/src", str(tmp_path), f"{checkout.repository}/later"]


def test_the_working_directory_is_the_checkouts(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(f"{checkout.repository}/src")
    enter(checkout)
    assert os.getcwd() == f"{checkout.folder}/src"


def test_a_working_directory_elsewhere_stays(checkout: Checkout, tmp_path: Path) -> None:
    enter(checkout)
    assert os.getcwd() == str(tmp_path)


def test_what_is_installed_in_editable_mode_comes_from_the_checkout(checkout: Checkout) -> None:
    finder = load("__editable___net_1_0_finder", "/venv/__editable___net_1_0_finder.py")
    finder.MAPPING = {  # type: ignore[attr-defined]
        "net": f"{checkout.repository}/src/net",
        "other": "/elsewhere/other",
    }
    enter(checkout)
    assert sys.path[0] == f"{checkout.folder}/src"
    assert "/elsewhere" not in sys.path


def test_an_environment_in_the_repository_stays(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", f"{checkout.repository}/.venv")
    packages = f"{checkout.repository}/.venv/lib/site-packages"
    Path(checkout.folder, ".venv/lib/site-packages").mkdir(parents=True)
    sys.path[:] = [packages]
    enter(checkout)
    assert sys.path == [packages]
    load("net", f"{checkout.folder}/net.py")
    load("numpy_like", f"{packages}/numpy_like.py")
    check_imports(checkout, build="net")


def test_a_module_of_the_repository_is_an_error_that_names_it(
    checkout: Checkout, words: SnapshotAssertion
) -> None:
    load("net", f"{checkout.folder}/net.py")
    load("layers", f"{checkout.repository}/layers.py")
    with pytest.raises(ModelLoadError) as caught:
        check_imports(checkout, build="net")
    assert str(caught.value) == words


def test_a_model_that_takes_nothing_from_the_commit_is_an_error(
    checkout: Checkout, words: SnapshotAssertion
) -> None:
    with pytest.raises(ModelLoadError) as caught:
        check_imports(checkout, build="net")
    assert str(caught.value) == words
