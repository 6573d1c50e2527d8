"""Logging of every process: one line an event, on stderr, from structlog and stdlib alike."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor


def set_up_logging(level: str, *, as_json: bool = False, quiet_store: bool = False) -> None:
    """Sends everything of `level` and above to stderr, as text or as one JSON object a line; with
    `quiet_store` no findings about the store, which the parent has logged."""
    renderer: Processor = structlog.processors.JSONRenderer()
    if not as_json:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            _Findings(silent=quiet_store),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class _Findings:
    """Passes each finding about the store once: a process may open the store repeatedly."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._logged: set[str] = set()

    def __call__(self, _logger: object, _name: str, event: EventDict) -> EventDict:
        finding = event.get("finding")
        if self._silent and (finding is not None or event["event"] == "store opened"):
            raise structlog.DropEvent
        if finding in self._logged:
            raise structlog.DropEvent
        if finding is not None:
            self._logged.add(finding)
        return event
