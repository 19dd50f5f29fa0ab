"""Models of hud.toml with sizes, and those that installed packages offer."""

from __future__ import annotations

import importlib.metadata
import logging
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.section import SectionError
from compile_hud.runner.config.user_models import ModelSection, installed_models, own_model
from compile_hud.runner.errors import ConfigError


def package(folder: Path, *, name: str, entries: str) -> PathDistribution:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    return PathDistribution(info)


def offered(folder: Path, entry: str) -> dict[str, ModelSpec]:
    distribution = package(folder, name="their-pkg", entries=f"[compile_hud.models]\n{entry}\n")
    return installed_models([distribution])


def test_an_entry_point_makes_a_model(tmp_path: Path, words: SnapshotAssertion) -> None:
    models = offered(tmp_path, "my_moe = my_pkg.bench:build\nplain = my_pkg.plain")
    assert models["my_moe"].build == "my_pkg.bench:build"
    assert models["plain"].build == "my_pkg.plain"
    assert models["my_moe"].summary == words
    assert list(models["my_moe"].sizes) == ["default"]


def test_packages_without_models_are_none(tmp_path: Path) -> None:
    other = package(tmp_path, name="other", entries="[console_scripts]\nx = y:z\n")
    assert installed_models([other]) == {}


def test_no_packages_are_not_those_that_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "[compile_hud.models]\nmine = their.bench\n"
    installed = [package(tmp_path, name="their-pkg", entries=entries)]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: installed)
    assert list(installed_models()) == ["mine"]
    assert installed_models([]) == {}


@pytest.mark.parametrize(
    "entry",
    [
        "bert = my_pkg.bench:build",
        "ref_gemm = my_pkg.bench:build",
        "a/b = my_pkg.bench:build",
        "mine = my pkg!",
    ],
)
def test_an_invalid_entry_point_is_one_warning_with_its_package(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entry: str, words: SnapshotAssertion
) -> None:
    with caplog.at_level(logging.WARNING):
        assert offered(tmp_path, entry) == {}
    (record,) = caplog.records
    assert "their-pkg" in record.getMessage()
    assert record.getMessage() == words


def test_entry_points_that_cannot_be_read_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert offered(tmp_path, "no value here") == {}
    assert len(caplog.records) == 1


def test_two_packages_with_one_name_are_reported_and_the_first_wins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, words: SnapshotAssertion
) -> None:
    both = [
        package(tmp_path, name=name, entries=f"[compile_hud.models]\nmine = {name}.bench\n")
        for name in ("first", "second")
    ]
    assert installed_models(both)["mine"].build == "first.bench"
    assert caplog.messages == words


def test_hud_toml_wins_over_a_package(tmp_path: Path) -> None:
    theirs = offered(tmp_path, "mine = their.bench\nother = their.bench")
    config = parse_config(
        '[models.mine]\nbuild = "own.bench"', path=None, env={}, installed=lambda: theirs
    )
    assert config.catalog["mine"].build == "own.bench"
    assert config.catalog["other"].build == "their.bench"
    assert len(config.catalog) == len(CATALOG) + 2


def test_a_size_is_the_configuration_and_has_its_axes() -> None:
    content = """
        [models.mine]
        build = "own.bench"
        [models.mine.sizes.tiny]
        batch = 4
        length = 8
        widths = [3, 5]
        rate = 0.5
        [models.mine.sizes.small]
        batch = 16
    """
    spec = parse_config(content, path=None, env={}).catalog["mine"]
    tiny = spec.sizes["tiny"]
    assert tiny.config == {"batch": 4, "length": 8, "widths": (3, 5), "rate": 0.5}
    assert (tiny.num_samples, tiny.num_tokens) == (4, 32)
    assert find_size(spec, "tiny-b2-l3").num_tokens == 6
    assert spec.sizes["small"].num_samples == 16


def test_without_sizes_there_is_one_and_num_samples_is_meant() -> None:
    content = '[models.mine]\nbuild = "own.bench"\nnum_samples = 7'
    sizes = parse_config(content, path=None, env={}).catalog["mine"].sizes
    assert list(sizes) == ["default"]
    assert sizes["default"].num_samples == 7


@pytest.mark.parametrize(
    "sizes",
    [
        "sizes = 3",
        "sizes = {}",
        "sizes = { small = 3 }",
        "sizes = { small = { batch = 0 } }",
        'sizes = { small = { batch = "8" } }',
        "sizes = { small = { widths = [0.5] } }",
        'sizes = { "small-b8" = { batch = 8 } }',
    ],
)
def test_sizes_that_are_none_are_reported(sizes: str, words: SnapshotAssertion) -> None:
    content = f'[models.mine]\nbuild = "own.bench"\n{sizes}'
    with pytest.raises(ConfigError) as caught:
        parse_config(content, path=None, env={})
    assert str(caught.value) == words


@pytest.mark.parametrize("size", ["auto", "nightly"])
def test_a_size_that_no_selection_could_ask_for_is_refused(
    size: str, words: SnapshotAssertion
) -> None:
    content = f'[models.mine]\nbuild = "own.bench"\nsizes = {{ {size} = {{ batch = 8 }} }}'
    with pytest.raises(ConfigError) as caught:
        parse_config(content, path=None, env={})
    assert str(caught.value) == words


def test_the_family_of_the_reference_cases_is_none_for_a_model(words: SnapshotAssertion) -> None:
    with pytest.raises(SectionError) as caught:
        own_model(
            "mine",
            ModelSection(build="own", family="reference"),
            folder=Path(),
            source_name="hud.toml",
        )
    assert str(caught.value) == words
    assert caught.value.key == "family"


def test_a_name_that_no_key_can_hold_is_reported(words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config('[models."a/b"]\nbuild = "own.bench"', path=None, env={})
    assert str(caught.value) == words


def test_a_loop_of_links_is_read_as_a_model_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to("b.py")
    (tmp_path / "b.py").symlink_to("a.py")
    config = parse_config('[models.net]\nbuild = "a.py"', path=tmp_path / "hud.toml", env={})
    assert config.catalog["net"].build == str(tmp_path / "a.py")
