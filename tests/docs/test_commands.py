"""Each command in the documents can be parsed, and exists: `test_snippets` runs most."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.main import main
from tests.docs.pages import DOCUMENTS, ROOT, name_of, read
from tests.docs.snippets import NOT_RUN, units
from tests.support.apps import built

_SHELL = {"sh", "console"}
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FOREIGN = {
    *{"curl", "docker", "git", "helm", "kubectl", "pip", "pip-audit", "promtool", "redis-cli"},
    *{"cat", "grep", "npm", "npx", "pipx", "sed", "sleep", "source", "sudo", "systemctl", "until"},
}
# A command that prints a table, and what follows it: what a page shows of it, or a pipe.
_TABLES = re.compile(
    r"postdate (?:list|logs|(?:\w+ )?(?:list|grant|plan)|lane show)\b(?!.*--(?:json|all))"
    r"[^|\n]*(?:\n(.+)|\| *cut )"
)
_KEYWORDS = {"do", "export", "then"}
_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_ROUTES = {
    (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"))
    for path, methods in built().state.document["paths"].items()
    for method in methods
}


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


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_a_fence_stands_alone_and_names_its_language(page: Path) -> None:
    """A reflow of the text would make a block one line of inline code, which nobody can run."""
    fences = [line for line in page.read_text().splitlines() if "```" in line]
    assert [line for line in fences if not re.fullmatch(r" *```\w*", line)] == []
    assert len(fences) == 2 * len(read(page).fences)
    spans = _INLINE.findall(_FENCE.sub("", page.read_text()))
    assert [each for each in spans if re.match(r"(sh|bash|console) \S|.*\\\n", each)] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_the_commands_of_each_block_can_be_parsed(page: Path) -> None:
    """And those that no test runs name what is there."""
    for fence in read(page).fences:
        if fence.language in _SHELL:
            shell = "\n".join(text.partition("\0")[0] for _, text in units(fence)) + "\n"
            judged = subprocess.run(["bash", "-n"], input=shell, capture_output=True, text=True)
            assert judged.stderr == "", fence.text
            found = list(commands(shell))
            assert found or "=" in shell, "it runs nothing, so its language is text"
            if fence.skip or name_of(page) in NOT_RUN:
                for words in found:
                    _judge(words)
        else:
            assert not re.search(r"^\$ ", fence.text, re.MULTILINE), fence.text


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_commands_that_a_sentence_names_exist_with_their_options(page: Path) -> None:
    for span in _INLINE.findall(_FENCE.sub("", page.read_text())):
        words = re.sub(r"[\[\]\\|()]", " ", span).split()
        if span.startswith("postdate "):
            _judge_names(words)
        elif span.startswith("make "):
            assert words[1] in _TARGETS, span
        elif words[0] in _FOREIGN and len(words) > 1:
            assert all(re.fullmatch(r"[a-z-]+", each) for each in words), f"{span}: make it a block"


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_tables_are_shown_with_their_heads(page: Path) -> None:
    """And no shell takes the head for a row."""
    for fence in read(page).fences:
        if fence.language in _SHELL:
            lines = [each[1] for each in _TABLES.finditer(fence.text)]
            told = fence.language == "console"
            for line in lines if told else [each for each in lines if each is None]:
                assert re.match(r"\$ |…|[A-Z]{2,} ", line or ""), fence.text


def test_a_block_that_was_reflowed_or_misspelt_is_found(tmp_path: Path) -> None:
    """These tests can fail."""
    page = tmp_path / "page.md"
    page.write_text("1. Do:\n\n   ```sh postdate check \\ --json ```\n")
    with pytest.raises(AssertionError):
        test_a_fence_stands_alone_and_names_its_language(page)
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
        read.cache_clear()
        page.write_text(f"<!-- skip: why -->\n\n```sh\n{command}\n```\n")
        with pytest.raises((AssertionError, click.ClickException, ValueError)):
            test_the_commands_of_each_block_can_be_parsed(page)
    page.write_text("Call `postdate check --everything`.")
    with pytest.raises(AssertionError):
        test_commands_that_a_sentence_names_exist_with_their_options(page)


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
            assert (ROOT / arguments[0]).exists(), words
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
