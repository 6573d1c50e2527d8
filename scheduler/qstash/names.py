"""How QStash names what Postdate has: messages are schedules, schedules are rules, and queues and
flow-control keys are lanes. Each is None where there can be no such thing. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scheduler import ids
from scheduler.lanes import is_lane

_MESSAGE, _SCHEDULE = "msg_", "scd_"
# Before ids of schedules that begin as no name of a rule may begin.
_ID = "id:"


def message_id(schedule_id: str) -> str:
    """`sch_X` is the message `msg_X`."""
    return _MESSAGE + ids.local(schedule_id)


def schedule_id(message_id: str) -> str | None:
    """The schedule of a message."""
    return _ours(message_id, _MESSAGE, ids.schedule_id)


def dlq_id(schedule_id: str) -> str:
    """Of a dead letter: `sch_X` is `X`."""
    return ids.local(schedule_id)


def schedule_of_dlq(dlq_id: str) -> str | None:
    """The schedule of a dead letter."""
    return _ours(dlq_id, "", ids.schedule_id)


def schedule_id_of_rule(recurring_id: str, name: str | None = None) -> str:
    """QStash's id of a rule: its name, or else `rec_X` is `scd_X`."""
    return name.removeprefix(_ID) if name else _SCHEDULE + ids.local(recurring_id)


def schedule_id_of(recurring_id: str | None, given: str = "") -> str | None:
    """The same for a message, of its rule and of what it carries."""
    return schedule_id_of_rule(recurring_id, given) if recurring_id else None


def new_schedule_id(now_ms: int) -> str:
    """For one that is given none."""
    return schedule_id_of_rule(ids.new_recurring_id(now_ms))


def rule_of(schedule_id: str) -> str | None:
    """The rule without a name."""
    return _ours(schedule_id, _SCHEDULE, ids.recurring_id)


def rule_name(schedule_id: str) -> str | None:
    """The name of the rule."""
    name = _ID + schedule_id if schedule_id[:1] in ("_", "-") else schedule_id
    is_name = is_lane(name) and not ids.is_recurring_id(name)
    return name if is_name and not schedule_id.startswith(_ID) else None


def canonical(header: str) -> str:
    """The name of a header as QStash spells it: `x-some-name` is `X-Some-Name`."""
    return "-".join(part.capitalize() for part in header.split("-"))


def _ours(text: str, before: str, made: Callable[[str], str]) -> str | None:
    """Our id of QStash's, which begins so."""
    found = made(text.removeprefix(before))
    is_id = ids.is_schedule_id(found) or ids.is_recurring_id(found)
    return found if is_id and text.startswith(before) else None


def _lane(prefix: str, name: str) -> str | None:
    lane = prefix + name
    return lane if name and is_lane(lane) else None


def _named(prefix: str, lane: str | None) -> str | None:
    return lane.removeprefix(prefix) if lane and lane.startswith(prefix) else None


QUEUES = "queue:"
queue_lane, queue_of = partial(_lane, QUEUES), partial(_named, QUEUES)
"""The lane of a queue, and the queue of a lane."""
flow_lane, flow_key_of = partial(_lane, "flow:"), partial(_named, "flow:")
"""The lane of a flow-control key, and the key of a lane."""
