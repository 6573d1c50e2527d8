"""What tests need of a machine besides Python, and how it gets that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Debian's packages of programs, as `.ci/run` installs them.
PACKAGES = {
    "redis-server": "redis-server",
    "redis-cli": "redis-tools",
    "chromium": "chromium",
    "promtool": "prometheus",
    "nginx": "nginx-light",
    "curl": "curl",
    "Node.js 20": "nodejs npm",
    "go": "golang-go",
    "php": "php-cli",
    "ruby": "ruby",
    "zsh": "zsh",
    "fish": "fish",
    "helm or Go": "golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev",
}
# Why a slow test is skipped.
SLOW = "needs --slow: it takes seconds"
_INSTALL = "apt-get install "
_NEEDED = re.compile(r"needs ([^:]+): (.*)")


def lack_of(program: str) -> str:
    """Why a test without that program is skipped."""
    return f"needs {program}: {_INSTALL}{PACKAGES[program]}"


def closing_line(reasons: Iterable[str]) -> str:
    """What was skipped for want of what, by the reasons of all skips; "" without any."""
    lacking, others, packages = Counter[str](), Counter[str](), list[str]()
    for reason in reasons:
        found = _NEEDED.fullmatch(reason)
        if found is None:
            others[reason] += 1
            continue
        lacking[found[1]] += 1
        if found[2].startswith(_INSTALL):
            packages += found[2].removeprefix(_INSTALL).split()
    parts = [f"{count:,} for want of {what}" for what, count in lacking.most_common()]
    parts += [f"{count:,} as {reason}" for reason, count in others.most_common()]
    line = f"Skipped tests: {', '.join(parts)}." if parts else ""
    if "--slow" in lacking:
        line += " `make test ARGS=--slow` runs all."
    if packages:
        line += f" Debian has the programs: {_INSTALL}{' '.join(dict.fromkeys(packages))}"
    return line
