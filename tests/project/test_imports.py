"""A cold import loads no torch in the dashboard and nothing heavy in the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from tests.support.sources import ROOT, python_files

HEAVY = ("torch", "transformers", "diffusers", "streamlit", "pandas", "scipy")
TORCH_SIDE = ("compile_hud.runner.worker", "compile_hud.runner.measure", "compile_hud.models_zoo.")


def modules(package: str) -> list[str]:
    """Return the names of a package's modules, in the order of their paths."""
    paths = python_files(package)
    names = ["compile_hud." + path.removesuffix(".py").replace("/", ".") for path in paths]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def heavy_after(*names: str) -> set[str]:
    """Return which heavy packages a new interpreter has loaded after importing `names`."""
    code = (
        "import importlib, json, sys\n"
        "[importlib.import_module(name) for name in sys.argv[1:]]\n"
        f"json.dump([name for name in {HEAVY!r} if name in sys.modules], sys.stdout)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_a_heavy_import_is_noticed() -> None:
    assert heavy_after("pandas") == {"pandas"}


def test_dashboard_loads_no_torch() -> None:
    assert not heavy_after(*modules("app")) & {"torch", "transformers", "diffusers"}


def test_command_line_loads_nothing_heavy() -> None:
    assert not heavy_after("compile_hud.runner.cli.main")


def test_runner_loads_neither_torch_nor_streamlit() -> None:
    light = [name for name in modules("runner") if not name.startswith(TORCH_SIDE)]
    assert not heavy_after(*light)


def test_store_and_catalog_load_nothing_heavy() -> None:
    assert not heavy_after(*modules("db"), *modules("models_zoo/catalog"))


def test_db_names_no_module_of_the_other_packages() -> None:
    """A module started by its name in a string is an import that import-linter cannot see."""
    other = re.compile(r"compile_hud[./](app|runner|models_zoo)")
    assert [path for path in python_files("db") if other.search((ROOT / path).read_text())] == []
