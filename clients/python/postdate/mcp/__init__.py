"""An MCP server over standard input and output: an AI application schedules requests, and sees what
became of them. It needs the extra: `pip install 'postdate-client[mcp]'`."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import sys

NO_SDK = "It needs the MCP SDK: pip install 'postdate-client[mcp]'"


def serve(url: str | None = None, *, write: bool = False) -> None:
    """Serves until standard input ends. `url` is by default POSTDATE_URL; the API key is always
    POSTDATE_API_KEY, as arguments are seen by all users of a machine. Raises ValueError without
    either, and ImportError without the SDK."""
    from postdate.mcp.server import Api, run

    asyncio.run(run(Api(url), write=write, version=importlib.metadata.version("postdate-client")))


def main() -> None:
    """The command `postdate-mcp`."""
    parser = argparse.ArgumentParser(
        "postdate-mcp",
        description="Serves MCP on standard input and output. POSTDATE_API_KEY is the API key.",
    )
    parser.add_argument("--url", help="where Postdate is; default: POSTDATE_URL")
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
    except KeyboardInterrupt:
        sys.exit(130)
