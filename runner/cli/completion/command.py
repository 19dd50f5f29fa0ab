"""hud completion: the script with which a shell completes `hud`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from compile_hud.runner.cli.echo import print_document
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import NearestChoice

_PROGRAM = "hud"
# click reads it when `hud` starts, and answers with names.
_VARIABLE = "_HUD_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    cls=ExampleCommand,
    examples=(
        "hud completion bash >> ~/.bashrc",
        "hud completion zsh >> ~/.zshrc",
        "hud completion fish > ~/.config/fish/completions/hud.fish",
    ),
)
@click.argument("shell", type=NearestChoice(SHELLS))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print the script that completes `hud` in a shell.

    Tab then completes commands, options, models, suites, toolchains and modes.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, _PROGRAM, _VARIABLE)
    print_document(script.source_template % script.source_vars())
