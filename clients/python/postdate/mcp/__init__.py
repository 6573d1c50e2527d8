"""An MCP server over standard input and output: an AI application schedules requests, and sees what
became of them. It needs the extra: `pip install 'postdate-client[mcp]'`."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import os
import signal
import sys

NO_SDK = "It needs the MCP SDK: pip install 'postdate-client[mcp]'"


def serve(url: str, *, write: bool = False) -> None:
    """Serves until standard input ends. The API key is always POSTDATE_API_KEY, as all users of a
    machine see arguments. Raises ValueError without it, and ModuleNotFoundError without the SDK."""
    from postdate.mcp.server import Api, run

    if not os.environ.get("POSTDATE_API_KEY"):
        raise ValueError("There is no API key: set POSTDATE_API_KEY.")
    # Ctrl-C ends it at once: the SDK's thread that waits for standard input cannot be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(run(Api(url), write=write, version=importlib.metadata.version("postdate-client")))


def main() -> None:
    """The command `postdate-mcp`."""
    parser = argparse.ArgumentParser(
        "postdate-mcp",
        description="Serves MCP on standard input and output. POSTDATE_API_KEY is the API key.",
    )
    url = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8000")
    parser.add_argument("--url", default=url, help="where Postdate is [env: POSTDATE_URL]")
    parser.add_argument(
        "--write", action="store_true", help="also offer to schedule, change and cancel"
    )
    given = parser.parse_args()
    try:
        serve(given.url, write=given.write)
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        sys.exit(NO_SDK)
    except ValueError as error:
        sys.exit(str(error))
