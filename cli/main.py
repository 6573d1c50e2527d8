"""The command `postdate`. It imports only the command that is called: a customer's commands need
nothing of the server, and scripts call them often."""

from __future__ import annotations

import codecs
import importlib
import io
import sys
from typing import Any

from cli.serving.endings import end_at_once_if_asked

# Those of which SIGTERM is the usual end. All else takes longer to import.
if sys.argv[1:2] in (["up"], ["api"], ["worker"]):
    end_at_once_if_asked()

import click
from click.exceptions import NoArgsIsHelpError

# Of each its module in `cli`, and the first sentence of its help, for which nothing is imported.
_USE_IT = {
    "schedule": ("customer.schedules", "Call URL at a chosen time."),
    "batch": ("customer.batch", "Store every line of FILE, a schedule in JSON."),
    "get": ("customer.schedules", "Show the schedule ID and its outcome."),
    "list": ("customer.schedules", "List waiting schedules by time, or ended ones by --status."),
    "change": ("customer.schedules", "Change the request or the time of the waiting schedule ID."),
    "cancel": ("customer.many", "Cancel waiting schedules, and get their credits back."),
    "replay": ("customer.many", "Replay schedules that have ended."),
    "lane": ("customer.lanes", "Limit how fast the schedules of a lane start, and pause them."),
    "recurring": (
        "customer.recurring",
        "Call a URL again and again, by a cron expression or interval.",
    ),
    "callback": (
        "customer.callbacks",
        "Report the ends of schedules to a URL, each at least once.",
    ),
    "apply": (
        "customer.apply.command",
        "Set lanes, recurring schedules and the callback as files say.",
    ),
    "logs": ("customer.logs", "Show the log of all schedules, or the attempts of one."),
    "stats": ("customer.logs", "Count executions, and show the credits that are left."),
    "signing": ("customer.logs", "Show or rotate the secrets that sign requests."),
    "mcp": ("customer.mcp", "Serve MCP on standard input and output, for AI applications."),
    "listen": ("customer.listen", "Receive requests and print each, with its lateness."),
}
_RUN_IT = {
    "up": ("serving.up", "Run everything on this machine: store, API and workers."),
    "api": ("serving.roles", "Serve the HTTP API; run as many as you like on one store."),
    "worker": ("serving.roles", "Fire due schedules; run as many as you like on one store."),
    "account": ("accounts", "Make accounts, list them, change them, give them credits."),
    "key": ("keys", "Make API keys, list them, deactivate them."),
    "hold": ("operators", "Stop all workers from claiming, until `postdate resume`."),
    "resume": ("operators", "Let workers claim due schedules again: ends `postdate hold`."),
    "backup": ("operators", "Copy the data dir's store to a new DIRECTORY."),
    "restore": ("operators", "End or fire schedules that may have gone out since the backup."),
    "reseal": ("operators", "Seal the whole store with the newest key; forget the others."),
    "bench": ("bench.command", "Measure what this machine carries, in two minutes."),
    "check": ("operators", "Read the whole store and report every broken invariant."),
    "completion": ("completion", "Print the script that completes commands in your shell."),
}
COMMANDS = _USE_IT | _RUN_IT
# A customer's commands run on Windows too, except the one that serves.
_ANYWHERE, _SERVES = ("customer.", "completion"), {"listen"}


class Commands(click.Group):
    """COMMANDS, in that order; each is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        place, _ = COMMANDS[cmd_name]
        if not _runs_here(cmd_name):
            return _refused(cmd_name)
        module = importlib.import_module(f"cli.{place}")
        kind = "command" if hasattr(module, f"{cmd_name}_command") else "group"
        command: click.Command = getattr(module, f"{cmd_name}_{kind}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and args[0][:1].isalnum():
            # click looks among `self.commands`, in which none is: they are imported late.
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in (("Use it", _USE_IT), ("Run it", _RUN_IT)):
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:10}", says if _runs_here(name) else "Not on Windows.")
                        for name, (_, says) in commands.items()
                    ]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *arguments: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """click's, with a red "Error:"."""
        main: Any = super().main
        if not standalone_mode:
            return main(*arguments, standalone_mode=False, **extra)
        try:
            status = main(*arguments, standalone_mode=False, **extra)
        except NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            if isinstance(error, click.UsageError) and error.ctx is not None:
                usage, path = error.ctx.get_usage(), error.ctx.command_path
                click.echo(f"{usage}\nTry '{path} --help' for help.\n", err=True)
            from cli.output import tell_error

            tell_error(error.format_message())
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("Aborted!", err=True)
            sys.exit(1)
        sys.exit(status or 0)


def _runs_here(name: str) -> bool:
    place, _ = COMMANDS[name]
    return sys.platform != "win32" or (place.startswith(_ANYWHERE) and name not in _SERVES)


def _refused(name: str) -> click.Command:
    """A command that says why it does not run here, whatever its arguments."""

    def refuse(words: tuple[str, ...]) -> None:
        from cli.output import fail

        fail(
            f"`postdate {name}` does not run on Windows: Postdate's server needs uvloop, Unix"
            " sockets, and sockets that child processes inherit. Run it in WSL 2 or in Docker."
            " A customer's commands, such as `postdate schedule`, and the Python client work here",
            as_json="--json" in words,
        )

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="postdate", prog_name="postdate")
def main() -> None:
    """Postdate stores an HTTP request and performs it at a chosen future time.

    \b
    To begin:       postdate up
    A target:       postdate listen --port 9000
    With its key:   export POSTDATE_API_KEY=pd_...
                    postdate schedule http://127.0.0.1:9000/hello --in 10s
    Many machines:  one Redis or Valkey, and on each machine `postdate api` or
                    `postdate worker` with --redis-url

    Settings are environment variables: see docs/reference/settings.md.
    """
    codecs.register_error("as_json", _as_json)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="as_json")


def _as_json(error: UnicodeError) -> tuple[str, int]:
    """Of a character that the output's encoding lacks, the escape of JSON. Pipes on Windows take
    few characters, and a command must not fail after it has done its work."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    import json

    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


if __name__ == "__main__":
    main()
