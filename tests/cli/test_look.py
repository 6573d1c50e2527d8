"""How tables, colours, progress and help look, and what errors name."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from api.app import create_app
from cli import tables
from cli.customer import many
from cli.customer.remote import option_of, sentence_of
from cli.main import COMMANDS, Commands, main
from cli.output import Progress
from cli.tables import NOTE, REQUEST, Column, Row, fields, streamed, table
from postdate import InvalidRequest
from postdate.errors import FieldError
from scheduler.runtime.settings import Settings
from tests.client.line import Line, answer
from tests.programs import lack_of
from tests.support.servers import postdate

COLOURS = ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "TERM", "COLUMNS")
ID = "sch_01m81he2c7evm8n3sm8e704k51"
COLUMNS = (Column("STATUS"), Column("ID"), REQUEST, Column("LANE"), NOTE)
URL = "https://example.com/customers/17/statements/monthly"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> None:
    """From now on standard output and error are a terminal."""
    for name in COLOURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())


@pytest.mark.parametrize(
    ("width", "cells", "shown"),
    [
        (200, ("failed", ID, f"GET {URL}", "a", "Gone"), f"failed  {ID}  GET {URL}  a     Gone"),
        (80, ("failed", ID, f"GET {URL}", "", ""), f"failed  {ID}  GET https://e…mers/17/statements/monthly"),
        (
            80,
            ("failed", ID, f"GET {URL}", "acme", "Connection refused"),
            f"failed  {ID}  GET https:/…/17/statements/monthly  acme\n    note Connection refused",
        ),
        (
            50,
            ("failed", ID, f"GET {URL}", "acme", "Gone"),
            f"failed  {ID}\n    request GET {URL}  lane acme  note Gone",
        ),
        (80, ("failed", ID, "", "契約書", "é"), f"failed  {ID}  契約書  é"),
        (
            80,
            ("failed", ID, "", "契約書" * 6, "x" * 40),
            f"failed  {ID}  {'契約書' * 6}\n    note {'x' * 40}",
        ),
        (
            80,
            ("failed", ID, "", "", "\x1b[31m\nred\u202e\t"),
            rf"failed  {ID}  \u001b[31m\nred\u202e\t",
        ),
        (80, ("failed", ID, "", "שלום", "مرحبا"), f"failed  {ID}  שלום\u200e  مرحبا\u200e"),
    ],
    ids=["whole", "middle", "below", "narrow", "wide", "wide-below", "escapes", "right-to-left"],
)  # fmt: skip
def test_a_row_fits_the_terminal_and_says_nothing_to_it(
    monkeypatch: pytest.MonkeyPatch, width: int, cells: tuple[str, ...], shown: str
) -> None:
    """Ids are never cut; a URL is, in its middle; what has no room goes below."""
    on_terminal(monkeypatch, width)
    monkeypatch.setenv("NO_COLOR", "1")
    head, _, row = table(COLUMNS, [cells]).partition("\n")
    assert head.split()[:2] == ["STATUS", "ID"]
    assert row == shown
    assert all(tables._width(line) <= width for line in (head, row.partition("\n")[0]))


def test_numbers_end_together_and_lines_below_a_row_are_indented() -> None:
    columns = (Column("LANE"), Column("DUE", right=True), Column("EMPTY"))
    rows = [("a", "1,200", ""), Row(("long-name", "7", ""), ["paused\x07"])]
    assert table(columns, rows) == (
        "LANE         DUE\na          1,200\nlong-name      7\n    paused\\u0007"
    )


def test_rows_that_come_one_by_one_stand_under_the_first_head() -> None:
    columns = (Column("STATUS", usual=9), Column("MS", right=True, usual=5), REQUEST)
    first = streamed(columns, [("failed", "12", f"GET {URL}")], head=True)
    assert first == f"STATUS        MS  REQUEST\nfailed        12  GET {URL}"
    assert streamed(columns, [("completed", "1,204", "GET x")], head=False) == (
        "completed  1,204  GET x"
    )


@pytest.mark.parametrize(
    ("environment", "is_terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"CLICOLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
    ],
    ids=str,
)
def test_colours_are_for_terminals_and_follow_the_usual_variables(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    is_terminal: bool,
    coloured: bool,
) -> None:
    on_terminal(monkeypatch)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if not is_terminal:
        monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert ("\x1b[" in table((Column("STATUS"),), [("failed",)])) == coloured


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("completed", 32),
        ("failed", 31),
        ("scheduled", 34),
        ("held", 33),
        ("retrying", 33),
        ("paused", 33),
        ("cancelled", 90),
    ],
)
def test_a_colour_has_the_dashboards_meaning(
    monkeypatch: pytest.MonkeyPatch, word: str, code: int
) -> None:
    on_terminal(monkeypatch)
    shown = f"\x1b[{code}m{word}\x1b[0m"
    assert table((Column("STATUS"),), [(word,)]).endswith(shown)
    assert fields({"name": word, "status": word}) == f"name    {word}\nstatus  {shown}"


def test_an_error_is_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    for words in (["no-such"], ["get"], ["stats", "--api-key", ""]):
        monkeypatch.setattr(sys, "stderr", Terminal())
        with pytest.raises(SystemExit):
            main(words, prog_name="postdate")
        assert "\x1b[31mError:\x1b[0m " in sys.stderr.getvalue()


def test_progress_says_how_much_how_fast_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    now_s = [100.0]
    monkeypatch.setattr("cli.output.time.monotonic", lambda: now_s[0])
    progress = Progress("Cancelling", 6000)
    now_s[0] += 2
    progress.add(1500)
    half = "[######------------------]  25%  Cancelling: 1,500, 750 a second, 6 s left"
    assert sys.stderr.getvalue() == f"\r{half}\x1b[K"  # type: ignore[attr-defined]
    unknown = Progress("Sealing again")
    now_s[0] += 1
    unknown.add(7)
    assert "\rSealing again: 7, 7 a second\x1b[K" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    piped = Progress("Cancelling", 6000)
    piped.add(1)
    piped.clear()
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_an_error_leaves_how_far_it_had_come(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    with suppress(KeyboardInterrupt), Progress("Checking") as progress:
        progress.add(400)
        raise KeyboardInterrupt
    left: str = sys.stderr.getvalue()  # type: ignore[union-attr]
    assert re.search(r"\rChecking: 400, [\d,]+ a second\x1b\[K\n$", left)


def results(first: int, count: int, refused: int = 0) -> list[dict[str, Any]]:
    done = [{"scheduleId": f"sch_{first + n}", "status": "cancelled"} for n in range(count)]
    error = {"error": "A worker has it", "code": 409, "status": "running", "reason": "conflict"}
    return done + [{"scheduleId": f"sch_r{n}", **error} for n in range(refused)]


def page(schedules: list[dict[str, Any]], cursor: str | None) -> dict[str, Any]:
    return {"schedules": schedules, "nextCursor": cursor, "creditsRemaining": 9}


def test_of_many_the_sum_and_some_refusals_are_printed() -> None:
    pages = page(results(0, 1000), "c"), page(results(1000, 30, refused=12), None)
    with Line(*(answer(200, each) for each in pages)) as line:
        where = {"url": line.url, "api_key": "pd_00_x"}
        done = postdate("cancel", "--lane", "a", "--yes", **where)
    assert (done.returncode, done.stdout) == (1, "1,030 cancelled, 12 refused\n")
    told = [f"sch_r{n}  A worker has it" for n in range(10)]
    assert done.stderr.splitlines() == [
        *told,
        "Further ones are only counted; --json tells all of them.",
        "Error: 12 of 1,042 could not be cancelled.",
    ]


@pytest.mark.parametrize("with_json", [False, True], ids=["text", "json"])
def test_an_error_half_way_leaves_the_sum_of_what_was_done(with_json: bool) -> None:
    fault = {"error": "Internal server error", "reason": "internal_error", "requestId": "req_1"}
    with Line(answer(200, page(results(0, 1000), "c")), answer(500, fault)) as line:
        where = {"url": line.url, "api_key": "pd_00_x"}
        done = postdate("cancel", "--lane", "a", "--yes", *["--json"] * with_json, **where)
    said = "Internal server error (request req_1). More may have been cancelled."
    said += " Run it again to do what is left."
    assert done.returncode == 1
    if with_json:
        assert len(json.loads(done.stdout)) == 1000
        assert json.loads(done.stderr)["error"] == said
    else:
        assert (done.stdout, done.stderr) == ("1,000 cancelled, 0 refused\n", f"Error: {said}\n")


@pytest.mark.parametrize(
    ("method", "sum_of_all"), [("add", "40 cancelled, 0 refused\n"), ("draw", "")]
)
def test_ctrl_c_leaves_the_sum_of_what_was_done(
    monkeypatch: pytest.MonkeyPatch, method: str, sum_of_all: str
) -> None:
    """After an answer, and before the first, of which nothing is known."""

    class Interrupted(Progress):
        def __getattribute__(self, name: str) -> Any:
            if name == method:
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    monkeypatch.setattr(many, "Progress", Interrupted)
    with Line(answer(200, page(results(0, 40), "c"))) as line:
        words = ["cancel", "--lane", "a", "--yes", "--url", line.url, "--api-key", "pd_00_x"]
        done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stdout) == (1, sum_of_all)
    more = "More" if sum_of_all else "Some"
    assert done.stderr == (
        f"Error: Interrupted. {more} may have been cancelled. Run it again to do what is left.\n"
    )


def all_commands() -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}

    def add(name: str, command: click.Command | None) -> None:
        assert command is not None
        found[name] = command
        for each, own in getattr(command, "commands", {}).items():
            add(f"{name} {each}", own)

    for name in COMMANDS:
        add(name, main.get_command(click.Context(main), name))
    return found


def test_help_has_two_groups_and_each_command_with_its_whole_summary() -> None:
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    use_it, run_it = shown.partition("Use it:\n")[2].split("\nRun it:\n")
    rows = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", use_it + run_it, re.MULTILINE))
    every = all_commands()
    assert rows == {name: every[name].get_short_help_str(1000) for name in COMMANDS}
    assert {"schedule", "listen"} <= set(re.findall(r"^  (\w+)", use_it, re.MULTILINE))
    assert {"up", "check"} <= set(re.findall(r"^  (\w+)", run_it, re.MULTILINE))
    for name, command in every.items():
        if isinstance(command, click.Group):
            own = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=40).output
            listed = "".join(own.partition("Commands:")[2].split())
            of_it = [command.get_short_help_str(1000) for command in command.commands.values()]
            assert all(summary.replace(" ", "") in listed for summary in of_it), name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("shedule", "No such command 'shedule'. Did you mean 'schedule'?"),
        ("lane shwo", "No such command 'shwo'. Did you mean 'show'?"),
        ("list --refrence x", "No such option '--refrence'. Did you mean '--reference'?"),
        ("schedule u --in 1s --delivery at-mst-once", "Did you mean 'at-most-once'?"),
        ("list --status faild", "Invalid value for '--status': 'faild' is not one of scheduled,"),
        ("list --status faild", "Did you mean 'failed'?"),
        ("list --limit ten", "'ten' is not a whole number, 1 or more, such as 10."),
        ("schedule u --in 1s --retries 99", "'99' is not a whole number, 0 to 20, such as 10."),
        ("bench --seconds x", "'--seconds': 'x' is not a number, 0.5 to 3,600."),
        ("bench --rate -1", "'--rate': '-1' is not a number, above 0."),
        ("schedule u --in soon", "'--in': 'soon' is not a duration such as 10s,"),
    ],
)
def test_a_wrong_word_is_told_with_what_is_expected(words: str, says: str) -> None:
    done = CliRunner().invoke(main, words.split(), env={"POSTDATE_API_KEY": "pd_00_x"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            "inv_abc",
            "No such schedule; that is the id of an invocation, and its schedule is sch_abc.\n",
        ),
        ("rec_abc", "a recurring schedule, and a schedule's begins with sch_."),
        ("sch_abc", "Error: No such schedule.\n"),
    ],
)
def test_an_id_of_another_kind_is_recognized(given: str, says: str) -> None:
    with Line(answer(404, {"error": "No such schedule", "reason": "not_found"})) as line:
        done = postdate("get", given, url=line.url, api_key="pd_00_x")
    assert done.returncode == 1
    assert says in done.stderr


DOCUMENT: Any = create_app(Settings()).state.document
# Of each command the parts of the document with its fields: schemas of bodies, or a path of a GET.
# Those that no option gives: the command pages by itself, or the field has a command of its own.
_FIELDS = {
    "schedule": ("ScheduleRequest", set()),
    "change": ("ChangeRequest", set()),
    "cancel": ("WaitingFilter", {"cursor", "status"}),
    "replay": ("FailedFilter", {"cursor", "status"}),
    "callback send": ("ReportedFilter", {"cursor"}),
    "callback set": ("AccountRequest", {"paused", "pausedUntil", "pauseNote"}),
    "recurring create": ("RecurringRequest", {"paused", "pausedUntil", "pauseNote"}),
    "recurring change": ("RecurringChangeRequest", {"paused", "pausedUntil", "pauseNote"}),
    "recurring preview": ("/recurring/preview", set()),
    "lane set": ("LaneRequest", {"paused", "pausedUntil", "pauseNote", "calmUntil"}),
    "lane pause": ("PauseRequest", set()),
    "list": ("/schedule", {"cursor", "callback"}),
    "logs": ("/stats/logs", {"cursor"}),
    "stats": ("/stats", set()),
    "signing rotate": ("RotationRequest", set()),
}


@pytest.mark.parametrize("name", _FIELDS)
def test_each_field_of_the_api_is_an_option_in_errors(name: str) -> None:
    part, without = _FIELDS[name]
    described = DOCUMENT
    if part.startswith("/"):
        found = {each["name"] for each in described["paths"][part]["get"]["parameters"]}
    else:
        found = set(described["components"]["schemas"][part]["properties"])
    context = click.Context(all_commands()[name])
    context.params = {}
    said = {field: option_of(field, context) for field in found - without}
    assert said
    assert not {
        field: option for field, option in said.items() if not re.match(r"--[a-z]|[A-Z]+$", option)
    }


def test_an_error_of_a_field_names_the_option_that_was_given() -> None:
    context = click.Context(all_commands()["schedule"])
    context.params = {"at": None, "in_": "x", "callback": "http://x"}
    error = InvalidRequest("targetHeaders.X-A: It is bad.", status_code=400)
    error.details = (FieldError("targetHeaders.X-A", "It is bad."),)
    assert sentence_of(error, context) == "--header: It is bad"
    assert sentence_of(error) == "targetHeaders.X-A: It is bad"
    error.details = (
        FieldError("expiresAt", "It must be after triggerAt."),
        FieldError("callbackOn", "It needs a callbackUrl: null means no callback."),
    )
    lane = click.Context(all_commands()["lane set"])
    burst = InvalidRequest("burst: It needs rate and per.", status_code=400)
    burst.details = (FieldError("burst", "It needs rate and per."),)
    assert sentence_of(burst, lane) == "--burst: It needs --rate and --per"
    assert sentence_of(error, context) == (
        "--expires-at: It must be after --in; --callback-on: It needs a --callback: null means no"
        " callback"
    )


# Types what follows `postdate `, asks the shell for completions, and prints them.
_ASKS = {
    "bash": (
        'eval "$(postdate completion bash)"; COMP_WORDS=(postdate {words}); COMP_CWORD={place};'
        ' _postdate_completion postdate; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ),
    "fish": 'postdate completion fish | source; complete --do-complete "postdate {words}"',
    # The widget of zsh needs a terminal: this proves that the script loads, and names its function.
    "zsh": (
        'autoload -U compinit; compinit -u; eval "$(postdate completion zsh)";'
        " echo $_comps[postdate]; env COMP_WORDS='postdate {words}' COMP_CWORD={place}"
        " _POSTDATE_COMPLETE=zsh_complete postdate"
    ),
}


_COMPLETED = {
    "sch": "schedule",
    "lane pa": "pause",
    "list --ref": "--reference",
    "schedule u --delivery at-m": "at-most-once",
    "list --status completed,fa": "completed,failed",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "words", "expected"),
    [
        (shell, *each)
        for shell in _ASKS
        for each in _COMPLETED.items()
        if shell != "fish" or "," not in each[0]  # click's script for fish takes no commas
    ],
)
def test_a_shell_completes(shell: str, words: str, expected: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(lack_of(shell))
    script = _ASKS[shell].format(words=words, place=len(words.split()))
    done = subprocess.run(
        [program, "-c", script],
        env={"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert re.search(rf"^{re.escape(expected)}\b", done.stdout, re.MULTILINE), done
    assert isinstance(main, Commands)
