"""What an ApiProcess runs: `serve`, and each warning is an error."""

from __future__ import annotations

import asyncio
import resource
import sys
import warnings

import msgspec

from api.serve import serve
from cli.serving.port import reserve
from scheduler.errors import PostdateError
from scheduler.runtime.settings import Settings
from tests.support import inside

if __name__ == "__main__":
    warnings.simplefilter("error")
    inside.install()
    url, port, parent_fd, most_files, more = sys.argv[1:]
    if int(most_files):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(most_files),) * 2)
    settings = Settings(redis_url=url, port=int(port), **msgspec.json.decode(more))
    try:
        reserved = asyncio.run(reserve(settings.host, settings.port, patience_s=0.0))
        listeners = reserved.listen()
        reserved.free()
        serve(settings, listeners, parent_fd=int(parent_fd) if parent_fd else None)
    except PostdateError as error:
        sys.exit(f"{type(error).__name__}: {error}")
