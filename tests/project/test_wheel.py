"""The wheel installs a single name, so that it cannot shadow packages of a user."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.support.sources import PACKAGES, ROOT
from tests.support.wheels import build_wheel


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names of the files in the wheel of this tree."""
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as archive:
        return archive.namelist()


def test_the_wheel_installs_one_name(names: list[str]) -> None:
    tops = {Path(name).parts[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"compile_hud"}


def test_the_wheel_has_every_module_and_asset(names: list[str]) -> None:
    expected = {
        f"compile_hud/{path.relative_to(ROOT)}"
        for folder in PACKAGES
        for pattern in ("*.py", "*.js", "*.html", "py.typed")
        for path in (ROOT / folder).rglob(pattern)
    }
    assert expected <= set(names)
