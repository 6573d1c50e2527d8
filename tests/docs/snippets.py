"""Runs the snippets of a page as a reader would, from top to bottom, against a running Postdate.

A page has one shell, one Python and one Node, so that what one snippet sets the next ones of its
language see (but for TypeScript and JavaScript, where each is a module). CONTRIBUTING.md has the
conventions.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cli.main import COMMANDS
from tests.docs.pages import ROOT, Fence, read
from tests.support import children
from tests.support.processes import PostdateProcess, environment

DRIVERS = Path(__file__).parent / "drivers"
TYPESCRIPT = ROOT / "clients/typescript"
_TIMEOUT_S = 60
# A command that serves until Ctrl-C is started by the test: here its options are judged.
_SERVING = re.compile(
    r"^((?:\$ )?(?:\S*/)?postdate (?:up|api|worker|listen|mcp)\b)(?!(?:.*\\\n)*.*&\s*$)", re.M
)
_OPERATORS = "|".join(
    name
    for name, (place, _) in COMMANDS.items()
    if not place.startswith(("customer", "serving", "completion"))
)
_OPERATING = re.compile(rf"\bpostdate ({_OPERATORS})\b")
_ID = re.compile(r"\b(?:rec|sch|inv|act|usr|sec)_[0-9a-z]{26}\b")
_SET = re.compile(r"^\s*(?:export )?([A-Z][A-Z0-9_]*)=", re.M)
_IMPORT = re.compile(r"^import\b", re.M)
_CLIENT = 'import { Postdate } from "postdate"; const postdate = new Postdate(); '
# What would change the machine or the checkout's environment.
_INSTALLING = re.compile(
    r"(?:^|[;&|(]|\bdo|-m|\$) *(?:\S*/)?"
    r"((?:pip|pipx|npm|pnpm|yarn|bun|deno|apt|apt-get|brew|helm) (?:install|add|i|run|upgrade)"
    r"|npx|docker|kubectl|sudo|systemctl|git clone)\b",
    re.M,
)
_ALONE = {"go": ["go", "run"], "php": ["php"], "ruby": ["ruby"]}
_MODULES = {"ts", "js"}
# What these show is for people who change the code: it takes minutes.
NOT_RUN = {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs/internals/testing.md"}
RUN = {"sh", "console", "python"} | _MODULES | _ALONE.keys()


@dataclass(frozen=True)
class Place:
    """What the page's addresses and keys stand for."""

    up: PostdateProcess
    target: str
    key: str
    secret: str

    def put_into(self, text: str) -> str:
        """The text with these in the place of those that a page shows."""
        for shown, real in (
            ("127.0.0.1:8000", self.up.base_url.removeprefix("http://")),
            ("127.0.0.1:9000", self.target.removeprefix("http://")),
            ("pd_…", self.key),
            ("whsec_…", self.secret),
        ):
            text = text.replace(shown, real)
        return _SERVING.sub(r"\1 --help", text)


class _Failed(Exception):
    """A snippet that does not do what its page shows."""


def operates(page: Path) -> bool:
    """Whether it changes more than one account, so that it needs a Postdate of its own."""
    return any(_OPERATING.search(each.text + each.setup) for each in read(page).fences)


def speaks_qstash(page: Path) -> bool:
    """Whether it turns on the door that speaks QStash."""
    return any("POSTDATE_QSTASH=on" in each.text for each in read(page).fences)


def lacking(page: Path) -> list[str]:
    """What its snippets need and this machine does not have: programs, or the TypeScript client."""
    languages = {each.language for each in read(page).fences if not each.skip}
    programs = [name for name in sorted(languages & _ALONE.keys()) if not shutil.which(name)]
    if languages & {"sh", "console"} and not shutil.which("curl"):
        programs.append("curl")
    shell = [each.text for each in read(page).fences if not each.skip]
    if any("redis-cli" in text for text in shell) and not shutil.which("redis-cli"):
        programs.append("redis-cli")
    if languages & _MODULES and not shutil.which("node"):
        programs.append("Node.js 20")
    elif languages & _MODULES and not (TYPESCRIPT / "dist/index.js").exists():
        programs.append("the TypeScript client")
    return programs


class Runner:
    """The programs that run one page, in a directory that looks like a checkout."""

    def __init__(self, page: Path, place: Place) -> None:
        self._page, self._place = page, place
        self._stack = ExitStack()
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        _make_checkout(self.directory, place.up.data_dir)
        settings = {"url": place.up.base_url, "api_key": place.key, "data_dir": place.up.data_dir}
        self._environment = environment(**settings) | {
            "PATH": os.pathsep.join(
                [str(DRIVERS), str(Path(sys.prefix, "bin")), os.environ["PATH"]]
            ),
            "NO_PROXY": "*",
            "PIP_DRY_RUN": "1",
        }
        self._output = self._stack.enter_context((self.directory / ".output").open("w+b"))
        self._drivers: dict[str, _Driver] = {}
        self._real_ids: dict[str, str] = {}
        self._names: dict[str, str] = {}  # what setups have set

    def failure(self) -> str | None:
        """Runs every snippet whose program is here; what became of the first that fails."""
        try:
            self._run()
        except _Failed as failure:
            return str(failure)
        return None

    def _run(self) -> None:
        lacking_here = set(lacking(self._page))
        for fence in read(self._page).fences:
            needed = "Node.js 20" if fence.language in _MODULES else fence.language
            if fence.skip or fence.language not in RUN or needed in lacking_here:
                continue
            if fence.language in _MODULES and "the TypeScript client" in lacking_here:
                continue
            if "redis-cli" in lacking_here and "redis-cli" in fence.text:
                continue
            if fence.language in {"sh", "console"} and (found := _INSTALLING.search(fence.text)):
                why = f"`{found[1]}` changes the machine: put `<!-- skip: reason -->` before it"
                self._check(fence.line, (1, why), fence.text)
            self._set_up(fence)
            for line, text in units(fence):
                self._run_unit(fence, line, text)

    def _set_up(self, fence: Fence) -> None:
        if not fence.setup:
            return
        names = list(dict.fromkeys(_SET.findall(fence.setup)))
        values = self.directory / ".values"
        told = "".join(f"printf '%s\\0' \"${each}\" >> {values}\n" for each in names)
        values.write_bytes(b"")
        setup = self._place.put_into(fence.setup)
        self._check(fence.line, self._shell(f"set -a\n{setup}\nset +a\n{told}", 0), "the setup")
        self._names |= zip(names, values.read_text().split("\0"), strict=False)

    def _run_unit(self, fence: Fence, line: int, text: str) -> None:
        text = _ID.sub(lambda found: self._real_ids.get(found[0], found[0]), text)
        text = self._place.put_into(text)
        if fence.language in {"sh", "console"}:
            text, _, shown = text.partition("\0")
            ended = self._shell(text, line, may_fail=bool(fence.fails))
            self._real_ids |= zip(_ID.findall(shown), _ID.findall(ended[1]), strict=False)
        elif fence.language == "python":
            ended = self._driver(
                "python", [sys.executable, str(DRIVERS / "python_snippets.py")]
            ).do({"code": text, "line": line, "file": str(self._page), "names": self._names})
        elif fence.language in _MODULES:
            client = "" if _IMPORT.search(text) else _CLIENT
            ended = self._driver("node", ["node", str(DRIVERS / "node_snippets.mjs")]).do(
                {"code": client + text, "line": line, "file": str(self._page), "names": self._names}
            )
        else:
            ended = self._alone(fence.language, text)
        self._check(line, ended, text, fence.fails)

    def _check(self, line: int, ended: tuple[int, str], what: str, fails: str = "") -> None:
        status, output = ended
        shown = f"{self._page.relative_to(ROOT)}:{line}\n{what.strip()}\n--- {output[-3000:]}"
        if fails and (status == 0 or fails not in output):
            raise _Failed(f"It was to fail with {fails!r}, and its status is {status}.\n{shown}")
        if status and not fails:
            raise _Failed(shown)

    def _shell(self, commands: str, line: int, may_fail: bool = False) -> tuple[int, str]:
        unit = self.directory / ".unit"
        unit.write_text("\n" * max(0, line - 1) + commands)
        asked = {"unit": str(unit), "may_fail": may_fail}
        return self._driver("sh", ["bash", str(DRIVERS / "shell_snippets")]).do(asked)

    def _alone(self, language: str, text: str) -> tuple[int, str]:
        program = self.directory / f"snippet.{language}"
        program.write_text(text)
        return self._shell(f"{' '.join(_ALONE[language])} {program}", 0, may_fail=True)

    def _driver(self, name: str, command: Sequence[str]) -> _Driver:
        if name not in self._drivers:
            driver = _Driver(command, self.directory, self._environment, self._output.fileno())
            self._drivers[name] = self._stack.enter_context(driver)
        return self._drivers[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()


class _Driver:
    """A process that runs one snippet after the other. It reads what to run, a line each, and
    answers each with a line that has its status."""

    def __init__(
        self, command: Sequence[str], directory: Path, environment: dict[str, str], output: int
    ) -> None:
        self._directory, self._output = directory, output
        asks, self._asks = os.pipe()
        self._answers, answers = os.pipe()
        os.set_inheritable(asks, True)
        self._process = children.start(
            [*command, str(asks), str(answers)],
            forked=False,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[asks, answers],
            start_new_session=True,
        )
        os.close(asks)
        os.close(answers)

    def do(self, asked: dict[str, object]) -> tuple[int, str]:
        """Its status, and all that it printed."""
        begin = os.fstat(self._output).st_size
        line = f"{asked['may_fail']:d} {asked['unit']}" if "unit" in asked else json.dumps(asked)
        os.write(self._asks, line.encode() + b"\n")
        ready, _, _ = select.select([self._answers], [], [], _TIMEOUT_S)
        answer = os.read(self._answers, 100) if ready else b"124"
        status = int(answer) if answer else self._process.wait()
        late = "" if ready else f"\nIt ran for more than {_TIMEOUT_S} seconds."
        size = os.fstat(self._output).st_size
        return status or (not ready), os.pread(self._output, size - begin, begin).decode() + late

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._asks)
        os.close(self._answers)
        with contextlib.suppress(ProcessLookupError):  # all that the page started in the background
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def units(fence: Fence) -> Iterator[tuple[int, str]]:
    """What runs at once, and its line: the whole fence, or each command of a console with the
    output that is shown after it, behind a NUL."""
    if fence.language != "console":
        yield fence.line, fence.text
        return
    lines = fence.text.splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
    for place, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        part = [lines[place][2:], *lines[place + 1 : end]]
        length = next((n for n in range(1, len(part)) if _is_whole(part[:n])), len(part))
        command, shown = part[:length], part[length:]
        yield fence.line + place, "\n".join(command) + "\0" + "\n".join(shown)


def _is_whole(command: list[str]) -> bool:
    """Whether the shell would ask for no further line."""
    if command[-1].endswith("\\"):
        return False
    judged = subprocess.run(
        ["bash", "-n"], input="\n".join(command), capture_output=True, text=True
    )
    return not re.search("unexpected (EOF|end of file)|delimited by end-of-file", judged.stderr)


def _make_checkout(directory: Path, data_dir: Path) -> None:
    """Links to all that a checkout has, its environment and the store's data, and the packages
    that a snippet imports."""
    for each in ROOT.iterdir():
        if each.name not in {".git", ".postdate", ".venv", "the TypeScript client"}:
            (directory / each.name).symlink_to(each)
    (directory / ".venv").symlink_to(sys.prefix)
    (directory / ".postdate").symlink_to(data_dir)
    modules = directory / "node_modules"
    modules.mkdir()
    if (TYPESCRIPT / "node_modules").exists():
        for each in (TYPESCRIPT / "node_modules").iterdir():
            if not each.name.startswith("."):
                (modules / each.name).symlink_to(each)
        (modules / "postdate").unlink(missing_ok=True)
        (modules / "postdate").symlink_to(TYPESCRIPT)
