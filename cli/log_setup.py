"""Logging of every process: one line an event, on stderr, from structlog and stdlib alike."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor


def set_up_logging(level: str, *, as_json: bool = False) -> None:
    """Sends everything of `level` and above to stderr, as text or as one JSON object a line."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            _pass_findings_once,
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
                _renderer(as_json),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def findings_were_told() -> None:
    """The parent has logged the findings about the store; this child stays silent."""
    _findings.silent = True


class _Findings:
    """Findings about the store that this process has logged: it may open the store repeatedly."""

    def __init__(self) -> None:
        self.silent = False
        self.told: set[str] = set()


_findings = _Findings()


def _pass_findings_once(_logger: object, _name: str, event: EventDict) -> EventDict:
    if _findings.silent and event["event"] == "store opened":
        raise structlog.DropEvent
    finding = event.get("finding")
    if finding is not None:
        if _findings.silent or finding in _findings.told:
            raise structlog.DropEvent
        _findings.told.add(finding)
    return event


def _renderer(as_json: bool) -> Processor:
    if as_json:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
