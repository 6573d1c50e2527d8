"""How QStash names what Postdate has: messages are schedules, and queues and flow-control keys are
lanes. Pure."""

from __future__ import annotations

from scheduler import ids
from scheduler.lanes import is_lane

_MESSAGE, _SCHEDULE, _QUEUE, _FLOW = "msg_", "scd_", "queue:", "flow:"
# Before ids of schedules that begin as no name of a rule may begin.
_ID = "id:"


def message_id(schedule_id: str) -> str:
    """`sch_X` is the message `msg_X`."""
    return _MESSAGE + ids.local(schedule_id)


def schedule_id(message_id: str) -> str | None:
    """The schedule of a message; None if the text cannot be the id of one."""
    found = ids.schedule_id(message_id.removeprefix(_MESSAGE))
    return found if message_id.startswith(_MESSAGE) and ids.is_schedule_id(found) else None


def dlq_id(schedule_id: str) -> str:
    """Of a dead letter: `sch_X` is `X`, as its message's id is `msg_X`."""
    return ids.local(schedule_id)


def schedule_of_dlq(dlq_id: str) -> str | None:
    """The schedule of a dead letter; None if the text cannot be the id of one."""
    found = ids.schedule_id(dlq_id)
    return found if ids.is_schedule_id(found) else None


def schedule_id_of(recurring_id: str | None, given: str = "") -> str | None:
    """QStash's id of the schedule that a message is of: the one that `Carried` has, or `scd_X` of
    the rule `rec_X`; None of other messages."""
    return recurring_id and (given or _SCHEDULE + ids.local(recurring_id))


def schedule_id_of_rule(recurring_id: str, name: str | None = None) -> str:
    """QStash's id of a rule: its name, if it has one."""
    return name.removeprefix(_ID) if name else _SCHEDULE + ids.local(recurring_id)


def new_schedule_id(now_ms: int) -> str:
    """For one that is given none."""
    return _SCHEDULE + ids.local(ids.new_recurring_id(now_ms))


def rule_of(schedule_id: str) -> str | None:
    """The rule `rec_X` of `scd_X`; None if the text is no such id."""
    found = ids.recurring_id(schedule_id.removeprefix(_SCHEDULE))
    return found if schedule_id.startswith(_SCHEDULE) and ids.is_recurring_id(found) else None


def rule_name(schedule_id: str) -> str | None:
    """The name of a rule with this id; None if no rule can have it."""
    name = _ID + schedule_id if schedule_id[:1] in ("_", "-") else schedule_id
    is_name = is_lane(name) and not ids.is_recurring_id(name)
    return name if is_name and not schedule_id.startswith(_ID) else None


def queue_lane(queue: str) -> str | None:
    """The lane of a queue; None if a lane cannot have this name."""
    return _lane(_QUEUE, queue)


def flow_lane(key: str) -> str | None:
    """The lane of a flow-control key; None if a lane cannot have this name."""
    return _lane(_FLOW, key)


def queue_of(lane: str | None) -> str | None:
    """The queue whose lane it is; None: of none."""
    return lane.removeprefix(_QUEUE) if lane and lane.startswith(_QUEUE) else None


def flow_key_of(lane: str | None) -> str | None:
    """The flow-control key whose lane it is; None: of none."""
    return lane.removeprefix(_FLOW) if lane and lane.startswith(_FLOW) else None


def canonical(header: str) -> str:
    """The name of a header as QStash spells it: `x-some-name` is `X-Some-Name`."""
    return "-".join(part.capitalize() for part in header.split("-"))


def _lane(prefix: str, name: str) -> str | None:
    lane = prefix + name
    return lane if name and is_lane(lane) else None
