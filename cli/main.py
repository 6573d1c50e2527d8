"""The command `postdate`."""

from __future__ import annotations

import click

from cli.accounts import account_group
from cli.cancel import cancel_command
from cli.check import check_command
from cli.entries import logs_command
from cli.keys import key_group
from cli.listen import listen_command
from cli.roles import api_command, worker_command
from cli.schedule import schedule_command
from cli.stats import stats_command
from cli.up import up_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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

    Every flag takes its default from an environment variable; README.md has the table.
    """


for _command in (
    up_command,
    listen_command,
    schedule_command,
    cancel_command,
    logs_command,
    stats_command,
    api_command,
    worker_command,
    account_group,
    key_group,
    check_command,
):
    main.add_command(_command)

if __name__ == "__main__":
    main()
