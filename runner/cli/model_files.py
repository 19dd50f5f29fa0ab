"""Whether the files are there that hud.toml names as models: it is said before a run, and once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compile_hud.runner.config.load import Config, setting_error
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest


def check_model_files(requests: Sequence[RunRequest], *, config: Config) -> None:
    """Raise ConfigError, with file and line, where a model of `requests` has no file.

    What the file does is not looked at: a model that raises is a failed case. A run that is
    continued has its plan, and is as it was; a schedule measures the models that there are.
    """
    for request in requests:
        if request.resume_id is not None:
            continue
        device = "cpu" if request.device == AUTO_DEVICE else request.device
        plan = make_plan(request.suite.selection, catalog=config.catalog, device=device)
        for name, build in {item.case.model: item.workload.build for item in plan}.items():
            file = Path(build.partition(":")[0])
            # What else there is, a module, is that of the toolchain's interpreter.
            if file.suffix == ".py" and not file.is_file():
                problem = f"there is no file {file}. Its path is relative to the settings file"
                raise setting_error(
                    f"models.{name}", key="build", problem=problem, path=config.path
                )
