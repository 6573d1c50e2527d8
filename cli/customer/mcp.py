"""`postdate mcp`."""

from __future__ import annotations

import click

from cli.output import fail


@click.command(name="mcp")
@click.option("--write", is_flag=True, help="Also offer to schedule, change and cancel.")
@click.option(
    "--url",
    metavar="URL",
    envvar="POSTDATE_URL",
    default="http://127.0.0.1:8000",
    help="Where Postdate is. [env: POSTDATE_URL; default: http://127.0.0.1:8000]",
)
def mcp_command(write: bool, url: str) -> None:
    """Serve MCP on standard input and output, for AI applications.

    Such an application starts it by itself: docs/how-to/mcp.md has the lines of its settings. It
    only reads unless --write is given. The API key is POSTDATE_API_KEY.
    """
    from postdate.mcp import NO_SDK, serve

    try:
        serve(url, write=write)
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        fail(NO_SDK, as_json=False)
    except ValueError as error:
        fail(str(error), as_json=False)
