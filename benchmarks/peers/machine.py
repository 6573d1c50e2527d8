"""What the figures were measured on, and when."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli.serving.embedded import find_allocator, find_server


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system, and the versions of what all systems share."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    store = _first(r"v=(\S+)", _said(str(find_server()), "--version"))
    allocator = Path(find_allocator(find_server()) or "").name
    found = {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": cores,
        "load": os.getloadavg()[0],
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "node": _said("node", "--version").lstrip("v"),
        "nginx": _first(r"nginx/(\S+)", _said("nginx", "-v")),
        "store": f"Valkey {store}",
        "malloc": _first(r"lib([a-z]+)", allocator) or "its own malloc",
    }
    found["words"] = (
        f"{found['cores']} cores of {found['processor']}, {found['memory_gib']} GiB, "
        f"{found['system']}, {found['store']}, Python {found['python']}, "
        f"Node.js {found['node'] or 'none'}, nginx {found['nginx'] or 'none'}"
    )
    return found


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "an unnamed processor"
    return _first(r"model name\s*: (.+)", text) or "an unnamed processor"


def _said(program: str, flag: str) -> str:
    """What a program says of itself; nothing where it is not installed."""
    found = shutil.which(program)
    if found is None:
        return ""
    done = subprocess.run([found, flag], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1].strip() if match else ""
