"""`--processes N` of `postdate api` and `postdate worker`: one command fills a machine.

We are the parent of N processes that do the work, and do none of it.
"""

from __future__ import annotations

import asyncio

import msgspec

from cli.children import Children, with_metrics_port
from cli.options import Context, locate_store, open_store
from cli.port import Port, reserve
from cli.supervise import ORPHAN_PATIENCE_S, supervise
from cli.tied import TiedChild
from scheduler.errors import PostdateError, StoreMisconfigured
from scheduler.settings import Settings
from scheduler.version import version


def run_processes(role: str, context: Context) -> None:
    """Runs as many processes of the role as the settings say, until a signal ends them.

    Raises PostdateError if they cannot start, or if one did not end as it should.
    """
    context = msgspec.structs.replace(context, settings=locate_store(context.settings))
    asyncio.run(supervise(Processes(role, context)))


class Processes:
    """The N processes of one role."""

    def __init__(self, role: str, context: Context) -> None:
        self._role = role
        self._context = context
        self._port: Port | None = None
        self._children: Children | None = None

    async def start(self) -> None:
        """Returns once all are ready and that was said. Raises PostdateError."""
        settings = self._context.settings
        if self._role == "api":
            self._port = await reserve(settings.host, settings.port, patience_s=ORPHAN_PATIENCE_S)
        findings_told = await _tell_findings(settings, self._role)
        if self._port is not None:
            settings = msgspec.structs.replace(settings, port=self._port.number)
        children = [
            self._child(
                number,
                with_metrics_port(settings, number - 1),
                quiet=findings_told or number > 1,
            )
            for number in range(1, settings.processes + 1)
        ]
        self._children = (
            Children(settings, workers=children)
            if self._port is None
            else Children(settings, apis=children)
        )
        await self._children.start()
        self._announce()

    async def stop(self) -> list[str]:
        """Drains them all; returns once they are gone."""
        if self._port is not None:
            self._port.free()
        return await self._children.stop() if self._children else []

    def hasten(self) -> None:
        if self._children is not None:
            self._children.hasten()

    def _child(self, number: int, settings: Settings, *, quiet: bool) -> TiedChild:
        name = {"api": "API"}.get(self._role, self._role)
        arguments = ["--json"] * self._context.as_json + ["--quiet-store"] * quiet
        return TiedChild(
            f"{name} {number}", self._role, settings, arguments=arguments, port=self._port
        )

    def _announce(self) -> None:
        count = self._context.settings.processes
        if self._port is None:
            answer, text = "worker", "Postdate worker is ready"
        else:
            answer, text = self._port.url, f"Postdate API is ready: {self._port.url}"
        self._context.show({"ready": answer, "processes": count}, f"{text} ({count} processes)")


async def _tell_findings(settings: Settings, role: str) -> bool:
    """Looks at the store once for all of them; False if it cannot be reached right now, which is
    theirs to wait for. Raises PostdateError if it cannot be used at all."""
    try:
        store = await open_store(settings)
    except PostdateError as error:
        if isinstance(error.__cause__, StoreMisconfigured):
            raise
        return False
    store.log_opened(settings, role=role, version=version())
    await store.aclose()
    return True
