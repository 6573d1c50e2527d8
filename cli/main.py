"""The command `postdate`. It imports only the command that is called: a customer's commands need
nothing of the server, and scripts call them often."""

from __future__ import annotations

import codecs
import importlib
import io
import sys

from cli.serving.endings import end_at_once_if_asked

# Those of which SIGTERM is the usual end. All else takes longer to import.
if sys.argv[1:2] in (["up"], ["api"], ["worker"]):
    end_at_once_if_asked()

import click

# Where each is: `module:name`.
COMMANDS = {
    "up": "cli.serving.up:up_command",
    "listen": "cli.customer.listen:listen_command",
    "schedule": "cli.customer.schedules:schedule_command",
    "batch": "cli.customer.batch:batch_command",
    "get": "cli.customer.schedules:get_command",
    "list": "cli.customer.schedules:list_command",
    "change": "cli.customer.schedules:change_command",
    "cancel": "cli.customer.many:cancel_command",
    "replay": "cli.customer.many:replay_command",
    "lane": "cli.customer.lanes:lane_group",
    "recurring": "cli.customer.recurring:recurring_group",
    "callback": "cli.customer.callbacks:callback_group",
    "apply": "cli.customer.apply.command:apply_command",
    "logs": "cli.customer.logs:logs_command",
    "stats": "cli.customer.logs:stats_command",
    "signing": "cli.customer.logs:signing_group",
    "mcp": "cli.customer.mcp:mcp_command",
    "api": "cli.serving.roles:api_command",
    "worker": "cli.serving.roles:worker_command",
    "account": "cli.accounts:account_group",
    "key": "cli.keys:key_group",
    "hold": "cli.operators:hold_command",
    "resume": "cli.operators:resume_command",
    "backup": "cli.operators:backup_command",
    "restore": "cli.operators:restore_command",
    "reseal": "cli.operators:reseal_command",
    "bench": "cli.bench.command:bench_command",
    "check": "cli.operators:check_command",
}
# A customer's commands run on Windows too, except the one that serves.
_ANYWHERE, _SERVES = "cli.customer.", {"listen"}


class Commands(click.Group):
    """COMMANDS, in that order; each is imported when it is called or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        if sys.platform == "win32" and (not module.startswith(_ANYWHERE) or cmd_name in _SERVES):
            return _refused(cmd_name)
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


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
        short_help="Not on Windows.",
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
