"""hud service: let systemd keep the dashboard and the schedules running."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

import click

from compile_hud.runner.cli.echo import echo, print_document
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.output import with_workspace
from compile_hud.runner.config.load import load_config
from compile_hud.runner.errors import ServiceError
from compile_hud.runner.system.user_service import (
    UNIT_NAME,
    UserService,
    has_lingering,
    settings_home,
)
from compile_hud.runner.workspace import Workspace

user_option = click.option(
    "--user", "is_for_user", is_flag=True, help="The unit of this user; no root is needed."
)


@click.group("service", cls=ExampleGroup)
def service_group() -> None:
    """Run `hud up` as a service of systemd."""


@service_group.command(
    examples=(
        "hud service install --user",
        "hud service install --user --no-dashboard",
        "hud service install --user --print",
    ),
)
@user_option
@click.option(
    "--no-dashboard", is_flag=True, help="Run the schedules only, as `hud schedule` does."
)
@click.option("--print", "is_printed", is_flag=True, help="Print the unit and change nothing.")
@with_workspace
def install(
    workspace: Workspace, *, is_for_user: bool, no_dashboard: bool, is_printed: bool
) -> None:
    """Write the unit, start it now and with each login.

    The service has the settings, the store and the folder of this call. Another call replaces it.
    """
    _check_kind(is_for_user)
    service = _service(workspace, name="schedule" if no_dashboard else "up")
    if is_printed:
        print_document(service.text())
        return
    service.write()
    machine = workspace.dependencies.machine
    service.start(machine)
    echo(f"installed and started {service.path}")
    echo(f"status: systemctl --user status {UNIT_NAME}")
    echo(f"log:    journalctl --user --unit {UNIT_NAME} --follow")
    user = getpass.getuser()
    if not has_lingering(machine, user=user):
        echo(f"It ends when you log out; to keep it running: loginctl enable-linger {user}")


@service_group.command(examples=("hud service remove --user",))
@user_option
@with_workspace
def remove(workspace: Workspace, *, is_for_user: bool) -> None:
    """Stop the service and remove its unit.

    The store and the settings stay.
    """
    _check_kind(is_for_user)
    service = _service(workspace, name="up")
    if service.remove(workspace.dependencies.machine):
        echo(f"stopped and removed {service.path}")
    else:
        echo(f"there is no {service.path}")


def _absolute(url: str) -> str:
    """Return a store URL whose file, if it is one, has an absolute path."""
    scheme, mark, path = url.partition(":///")
    return f"{scheme}{mark}{Path(path).absolute()}" if scheme == "duckdb" else url


def _check_kind(is_for_user: bool) -> None:
    if not is_for_user:
        raise click.UsageError(
            "Add --user. A service of the whole machine needs a user of its own: write the output"
            f" of `hud service install --user --print` to /etc/systemd/system/{UNIT_NAME}, with"
            " `User=NAME` below [Service] and `WantedBy=multi-user.target`, then run"
            f" `systemctl enable --now {UNIT_NAME}` as root."
        )


def _service(workspace: Workspace, *, name: str) -> UserService:
    config, env = workspace.config, workspace.dependencies.env
    program = Path(sys.executable).parent / "hud"
    if not program.exists():
        raise ServiceError(
            f"there is no {program}, which the service would start. Install Compile HUD into this"
            " Python, for example with `make install` or pipx",
            program=program,
        )
    variables = {"HUD_STATE_DIR": str(config.state_dir.absolute())}
    if config.path is not None:
        variables["HUD_CONFIG"] = str(config.path.absolute())
    # systemd gives services a path without the user's compiler, and Inductor needs one.
    for variable in ("PATH", "CXX", "HUD_LOCK_DIR"):
        if env.get(variable):
            variables[variable] = env[variable]
    service = UserService(
        command=(str(program), name),
        folder=Path.cwd(),
        environment=variables,
        settings_home=settings_home(env),
    )
    if _absolute(config.store_url) != _absolute(load_config(config.path, env=variables).store_url):
        # The unit can be read by others, and the URL may have a password.
        echo(
            f"the store is not that of hud.toml: write HUD_DATABASE_URL=URL into {service.secrets}",
            err=True,
        )
    return service
