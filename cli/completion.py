"""`postdate completion`: what a shell needs to complete commands, options, choices and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from cli import parameters

_SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=parameters.Choice(_SHELLS), metavar="|".join(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands in your shell.

    \b
    bash, in ~/.bashrc:   eval "$(postdate completion bash)"
    zsh, in ~/.zshrc:     eval "$(postdate completion zsh)"
    fish:                 postdate completion fish > ~/.config/fish/completions/postdate.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "postdate", "_POSTDATE_COMPLETE").source())
