"""The dashboard's own files, from memory: nothing on a page comes from another host."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from litestar import get
from litestar.params import FromPath

from api.dashboard.answer import Raw
from api.service import HttpRequest
from scheduler.errors import NotFound

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


class _File(NamedTuple):
    plain: Raw
    packed: Raw
    version: str


def _read(path: Path) -> _File:
    content = path.read_bytes()
    headers = [
        (b"content-type", _TYPES[path.suffix]),
        (b"cache-control", b"public, max-age=31536000, immutable"),
        (b"vary", b"accept-encoding"),
    ]
    gzipped = gzip.compress(content, 9, mtime=0)
    packed = Raw(200, gzipped, [*headers, (b"content-encoding", b"gzip")])
    return _File(Raw(200, content, headers), packed, hashlib.sha256(content).hexdigest()[:12])


_FILES = {path.name: _read(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}


def address(name: str) -> str:
    """The address of a file's version, which browsers may keep for long."""
    return f"/dashboard/static/{name}?v={_FILES[name].version}"


@get("/static/{name:str}")
async def static_file(request: HttpRequest, name: FromPath[str]) -> Raw:
    file = _FILES.get(name)
    if file is None:
        raise NotFound("There is no such file.")
    return file.packed if "gzip" in request.headers.get("accept-encoding", "") else file.plain
