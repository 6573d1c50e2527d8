"""The dashboard's own files, from memory: nothing on a page comes from another host."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path

from litestar import get
from litestar.params import FromPath

from api.dashboard.answer import Raw
from scheduler.errors import NotFound

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


def _read(path: Path) -> Raw:
    content = path.read_bytes()
    headers = [
        (b"content-type", _TYPES[path.suffix]),
        (b"cache-control", b"public, max-age=31536000, immutable"),
    ]
    return Raw(200, content, headers, gzip.compress(content, 9, mtime=0))


_FILES = {path.name: _read(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
_VERSIONS = {name: sha256(file.body).hexdigest()[:12] for name, file in _FILES.items()}


def address(name: str) -> str:
    """The address of a file's version, which browsers may keep for long."""
    return f"/dashboard/static/{name}?v={_VERSIONS[name]}"


@get("/static/{name:str}")
async def static_file(name: FromPath[str]) -> Raw:
    if name not in _FILES:
        raise NotFound("There is no such file.")
    return _FILES[name]
