"""Each command in the documents can be run as it stands there, or at least parsed."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from cli.main import main
from tests.support.apps import built
from tests.test_documents import DOCUMENTS

_ROOT = Path(__file__).parent.parent
_SHELL = {"sh", "console"}
# Blocks that run nothing say so by their language.
_OTHERS = {"text", "json", "http", "python", "js", "nginx", "yaml"}
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FOREIGN = {
    *{"curl", "docker", "git", "helm", "kubectl", "pip", "pip-audit", "promtool", "redis-cli"},
    *{"sed", "sudo", "systemctl"},
}
_KEYWORDS = {"do", "export", "then"}
_TARGETS = set(re.findall(r"^([a-z-]+):", (_ROOT / "Makefile").read_text(), re.MULTILINE))
_ROUTES = {
    (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"))
    for path, methods in built().state.document["paths"].items()
    for method in methods
}


class Block(NamedTuple):
    language: str
    text: str


def blocks(document: Path) -> list[Block]:
    return [Block(*found) for found in _FENCE.findall(document.read_text())]


def shell_of(block: Block) -> str:
    """The block's commands, without the output of a console."""
    if block.language == "sh":
        return block.text
    commands: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
        elif commands and _goes_on(commands[-1]):
            commands[-1] += "\n" + line
    return "\n".join(commands) + "\n"


def _goes_on(command: str) -> bool:
    if command.endswith("\\"):
        return True
    try:
        shlex.split(command)
    except ValueError:  # a quotation is open
        return True
    return False


def commands(shell: str) -> Iterator[list[str]]:
    """Each simple command's words, without the assignments before it."""
    shell = re.sub(r"(^|\s)# .*$", "", shell.replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(shell, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t"
    lexer.commenters, lexer.whitespace_split = "", True
    words: list[str] = []
    for word in [*lexer, "\n"]:
        if set(word) <= set("();<>|&\n"):
            if words:
                yield words
            words = []
        elif words or not (word in _KEYWORDS or re.match(r"[A-Z_]+=", word)):
            words.append(word)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_a_fence_stands_alone_and_names_its_language(document: Path) -> None:
    """A reflow of the text would make a block one line of inline code, which nobody can run."""
    fences = [line for line in document.read_text().splitlines() if "```" in line]
    assert [line for line in fences if not re.fullmatch(r" *```\w*", line)] == []
    found = blocks(document)
    assert len(fences) == 2 * len(found)
    assert {block.language for block in found} <= _SHELL | _OTHERS
    spans = _INLINE.findall(_FENCE.sub("", document.read_text()))
    assert [each for each in spans if re.match(r"(sh|bash|console) \S|.*\\\n", each)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_commands_of_each_block_can_be_parsed(document: Path) -> None:
    for block in blocks(document):
        if block.language in _SHELL:
            shell = shell_of(block)
            judged = subprocess.run(["bash", "-n"], input=shell, capture_output=True, text=True)
            assert judged.stderr == "", block.text
            found = list(commands(shell))
            assert found or "=" in shell, "it runs nothing, so its language is text"
            for words in found:
                _judge(words)
        else:
            assert not re.search(r"^\$ ", block.text, re.MULTILINE), block.text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_commands_that_a_sentence_names_exist_with_their_options(document: Path) -> None:
    for span in _INLINE.findall(_FENCE.sub("", document.read_text())):
        words = re.sub(r"[\[\]\\|()]", " ", span).split()
        if span.startswith("postdate "):
            _judge_names(words)
        elif span.startswith("make "):
            assert words[1] in _TARGETS, span
        elif words[0] in _FOREIGN and len(words) > 1:
            assert all(re.fullmatch(r"[a-z-]+", each) for each in words), f"{span}: make it a block"


def test_a_block_that_was_reflowed_or_misspelt_is_found(tmp_path: Path) -> None:
    """These tests can fail."""
    document = tmp_path / "page.md"
    document.write_text("1. Do:\n\n   ```sh postdate check \\ --json ```\n")
    with pytest.raises(AssertionError):
        test_a_fence_stands_alone_and_names_its_language(document)
    for command in (
        "postdate restore --fired-sinse 2026-11-21T03:00:00Z --expire",
        "postdate chekc",
        "make chek",
        "curl $API/schedules",
        "curl $API/schedule -d '{\"targetUrl\": }'",
        "curl $API/schedule -X PUT",
        "if postdate check",
        "unknown-program --help",
    ):
        document.write_text(f"```sh\n{command}\n```\n")
        with pytest.raises((AssertionError, click.ClickException, ValueError)):
            test_the_commands_of_each_block_can_be_parsed(document)
    document.write_text("Call `postdate check --everything`.")
    with pytest.raises(AssertionError):
        test_commands_that_a_sentence_names_exist_with_their_options(document)


def _judge(words: list[str]) -> None:
    program, *arguments = words
    if program in {"postdate", ".venv/bin/postdate"}:
        _parse(arguments)
    elif program == "make":
        targets = [each for each in arguments if "=" not in each and not each.startswith("-")]
        assert set(targets) <= _TARGETS | {"../before", ".venv/installed-dev"}, words
    elif program == "curl":
        _judge_call(arguments)
    elif program in {"python", ".venv/bin/python"}:
        if arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]), words
        else:
            assert (_ROOT / arguments[0]).exists(), words
    else:
        assert program in {*_FOREIGN, "cd", "for", "done"}, words


def _parse(arguments: list[str]) -> None:
    """As the command line does. Raises click.ClickException."""
    command: click.Command = main
    context = click.Context(main, info_name="postdate")
    rest = list(arguments)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"postdate has no command {name}"
        command = found
        context = command.make_context(
            name, rest if not isinstance(command, click.Group) else [rest[0]], parent=context
        )


def _judge_names(words: list[str]) -> None:
    command: click.Command = main
    rest = words[1:]
    context = click.Context(main)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest.pop(0))
        assert found is not None, words
        command = found
    options = {each for one in command.params for each in one.opts + one.secondary_opts}
    given = {each.partition("=")[0] for each in words if each.startswith("--")}
    assert given <= options | {"--help", "--version"}, words


def _judge_call(arguments: list[str]) -> None:
    """Its method and path are the API's, and its body is JSON."""
    given = dict(itertools.pairwise(arguments))
    bodies = [value for name, value in given.items() if name in {"-d", "--data"}]
    if "-G" in arguments:
        bodies = []
    method = given.get("-X", "POST" if bodies else "GET")
    [url] = [each for each in arguments if re.match(r"\$API/|https?://", each)]
    found = re.fullmatch(r"(?:\$API|http://(?:127\.0\.0\.1|API):8000)(/[^?]*).*", url)
    if found is None:
        return  # another server's
    path = found[1]
    assert any(method == known and route.match(path) for known, route in _ROUTES), (method, path)
    for body in bodies:
        json.loads(body)
