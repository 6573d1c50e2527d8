"""Runs the Python snippets that it is told of, one after the other, as one module."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
import traceback
from types import CodeType, ModuleType

from postdate import Postdate


def run(asked: dict[str, str], module: ModuleType, client: Postdate, runner: asyncio.Runner) -> int:
    names: dict[str, str] = dict(asked["names"])  # type: ignore[arg-type]
    os.environ.update(names)
    vars(module).update({name.lower(): value for name, value in names.items()})
    vars(module).update(Postdate=Postdate, postdate=client)
    code = "\n" * (int(asked["line"]) - 1) + asked["code"]
    try:
        compiled: CodeType = compile(
            code, asked["file"], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        running = eval(compiled, vars(module))
        if asyncio.iscoroutine(running):

            async def whole() -> None:
                await running

            runner.run(whole())
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


def main() -> None:
    asks, answers = int(sys.argv[1]), int(sys.argv[2])
    module = ModuleType("snippet")
    sys.modules["snippet"] = module
    sys.path.insert(0, "")
    with os.fdopen(asks) as lines, Postdate() as client, asyncio.Runner() as runner:
        for line in lines:
            os.write(answers, b"%d\n" % run(json.loads(line), module, client, runner))


main()
