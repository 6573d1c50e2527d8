"""What the documents name is there, and what there is they name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from api.schema.fields import FIELDS
from cli.main import main
from scheduler.runtime.settings import Settings, from_environment, unknown_variables
from tests.docs import english
from tests.docs.pages import ROOT
from tests.metrics import catalogue

_ROOM = re.compile(r"^\| `([\w/]+)/` \|", re.MULTILINE)
_MOST_FILES = 20
_SETTING = re.compile(r"^\| (`POSTDATE_\w+`(?:, `POSTDATE_\w+`)*) \| ([^|]*) \|", re.MULTILINE)


def settings_documented() -> dict[str, str]:
    """Each variable of the table, and what it says of the default."""
    found: dict[str, str] = {}
    for names, said in _SETTING.findall((ROOT / "docs/reference/settings.md").read_text()):
        defaults = said.split(", ")
        for place, name in enumerate(re.findall(r"`(\w+)`", names)):
            found[name] = defaults[place % len(defaults)].strip("`")
    return found


def test_every_setting_is_in_the_table_and_no_other() -> None:
    plain = {f"POSTDATE_{field.upper()}" for field in Settings.__struct_fields__}
    by_plan = {"POSTDATE_RATE_LIMITS", "POSTDATE_STORED_BYTES"}
    of_plans = {
        f"POSTDATE_{name}_{plan.upper()}"
        for name in ("RATE", "STORED_BYTES")
        for plan in Settings().rate_limits
    }
    assert settings_documented().keys() == (plain - by_plan) | of_plans
    assert unknown_variables(settings_documented()) == []


def test_the_table_tells_the_defaults() -> None:
    told = {name: text for name, text in settings_documented().items() if text.isdigit()}
    assert len(told) > 15
    # The number of shards is the store's to say, and no default of the setting.
    told.pop("POSTDATE_SHARDS")
    assert from_environment(told) == Settings()


def test_every_benchmark_that_is_named_can_be_imported() -> None:
    text = (ROOT / "benchmarks/README.md").read_text()
    for name in {*re.findall(r"python -m (benchmarks[\w.]+)", text), "tests.browser.screenshots"}:
        importlib.import_module(name)


def test_every_command_is_in_the_list() -> None:
    listed = (ROOT / "docs/reference/commands.md").read_text()
    missing = [name for name, _ in commands(main, "") if f"`{name}" not in listed]
    # The second and later ones of a line leave out what all of them begin with.
    assert [name for name in missing if f"`{name.removeprefix('postdate ')}" not in listed] == []


def commands(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    """Those that do something, by their names: `postdate key create`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        path = f"{before or 'postdate'} {name}"
        if isinstance(found, click.Group):
            yield from commands(found, path)
        elif found is not None:
            yield path, found


def test_the_help_of_each_command_is_plain_english() -> None:
    faulty = [
        f"{path}: {fault}"
        for path, command in commands(main, "")
        for text in (command.help, *(getattr(each, "help", "") for each in command.params))
        for fault in english.faults(text or "")
    ]
    assert faulty == [], "\n".join(faulty)


def test_the_sentences_in_the_code_are_plain_english() -> None:
    rooms = ("api", "scheduler", "worker", "metrics", "cli", "clients/python/postdate")
    sentences = [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.value)
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        for node in strings(ast.parse(path.read_text()))
        if node.value.count(" ") > 2
    ]
    assert len(sentences) > 1000
    faulty = [f"{at}: {fault}" for at, text in sentences for fault in english.faults(text)]
    assert faulty == [], "\n".join(faulty)


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """All strings but docstrings, which may describe a noun without naming it."""
    for node in ast.walk(tree):
        for each in ast.iter_child_nodes(node):
            is_text = isinstance(each, ast.Constant) and isinstance(each.value, str)
            if is_text and not isinstance(node, ast.Expr):
                yield each


def test_every_field_of_a_schedule_is_told() -> None:
    told = (ROOT / "docs/reference/schedules.md").read_text()
    assert [name for name in FIELDS if f"| `{name}` |" not in told] == []


def test_every_metric_is_told_of_and_no_other() -> None:
    listed = re.findall(
        r"`(postdate_\w+)(?:\{[\w,]+\})?`", (ROOT / "docs/reference/metrics.md").read_text()
    )
    wanted = {
        name + ("_total" if kind == "counter" else "")
        for name, kind in catalogue.families().items()
    }
    assert set(listed) == wanted


def test_every_container_that_docs_isolation_names_exists() -> None:
    named = re.findall(
        r"`((?:api|scheduler|worker)(?:\.[a-z_]+)+)\.(\w+)(?:\.(\w+))?`",
        (ROOT / "docs/internals/isolation.md").read_text(),
    )
    assert len(named) > 30
    for module, name, attribute in named:
        found = getattr(importlib.import_module(module), name)
        if attribute:
            assert f"self.{attribute}" in inspect.getsource(found), f"{name}.{attribute}"


def test_the_map_of_the_rooms_is_complete_and_no_room_is_crowded() -> None:
    """A room of tests that has the name of a room of the code needs no line of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    files = [Path(name) for name in listed if name.endswith((".py", ".lua", ".html"))]
    rooms = Counter(path.parent.as_posix() for path in files if path.name != "__init__.py")
    rooms.pop(".", None)
    named = _ROOM.findall((ROOT / "CONTRIBUTING.md").read_text())
    plain = {room for room in rooms if not room.startswith("tests/")}
    mirrored = {re.sub("^scheduler/(store)|^api/(dashboard)", r"\1\2", room) for room in plain}
    assert sorted(named) == sorted(rooms.keys() - {f"tests/{room}" for room in mirrored})
    crowded = {room for room, count in rooms.items() if count > _MOST_FILES}
    assert crowded <= {"benchmarks"}, "benchmarks has a file for each question"
