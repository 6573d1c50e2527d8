"""The command `postdate`. Of its commands only the one that is called is imported: a customer's
need nothing of the server, and whoever calls them from a script does so often."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click


class Entry(NamedTuple):
    """Where a command is, as `module:name`, and what the list of commands says of it."""

    place: str
    says: str


COMMANDS = {
    "up": Entry("cli.up:up_command", "Run everything on this machine: store, API and workers."),
    "listen": Entry(
        "cli.listen:listen_command", "Receive requests and print each, with its lateness."
    ),
    "schedule": Entry("cli.schedule:schedule_command", "Have URL called at a chosen time."),
    "batch": Entry("cli.batch:batch_command", "Store every line of FILE, a schedule in JSON."),
    "get": Entry("cli.schedules:get_command", "Show the schedule ID, and what became of it."),
    "list": Entry("cli.schedules:list_command", "List what waits, by its time."),
    "change": Entry(
        "cli.schedule:change_command", "Change what the waiting schedule ID asks for, or when."
    ),
    "cancel": Entry(
        "cli.cancel:cancel_command", "Cancel waiting schedules, and have their credits back."
    ),
    "replay": Entry("cli.replay:replay_command", "Replay schedules that have ended."),
    "logs": Entry(
        "cli.logs:logs_command", "Show the log: what was executed or cancelled, and what waits."
    ),
    "stats": Entry(
        "cli.logs:stats_command", "Count executions, and tell the credits that are left."
    ),
    "signing": Entry(
        "cli.signing:signing_group", "Show what requests are signed with, and rotate it."
    ),
    "api": Entry("cli.roles:api_command", "Serve the HTTP API."),
    "worker": Entry("cli.roles:worker_command", "Fire what is due."),
    "account": Entry(
        "cli.accounts:account_group", "Make accounts, list them, change them, give them credits."
    ),
    "key": Entry("cli.keys:key_group", "Make API keys, list them, deactivate them."),
    "hold": Entry(
        "cli.hold:hold_command", "Have no worker claim anything, until `postdate resume`."
    ),
    "resume": Entry("cli.hold:resume_command", "Have workers claim again what is due."),
    "backup": Entry("cli.backup:backup_command", "Copy the data dir's store to a new DIRECTORY."),
    "restore": Entry(
        "cli.restore:restore_command", "Decide about what may have been fired before a restore."
    ),
    "reseal": Entry(
        "cli.reseal:reseal_command",
        "Seal all that is stored with the newest key, and forget the keys before it.",
    ),
    "bench": Entry(
        "cli.bench.command:bench_command", "Measure what this machine carries, in two minutes."
    ),
    "check": Entry(
        "cli.check:check_command", "Read the whole store and report every broken invariant."
    ),
}


class Commands(click.Group):
    """Those of COMMANDS, in that order; each is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.says) for name, entry in COMMANDS.items()])


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

    Every flag takes its default from an environment variable; docs/settings.md has the table.
    """


if __name__ == "__main__":
    main()
