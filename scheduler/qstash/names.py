"""How QStash names what Postdate has: messages are schedules, and queues and flow-control keys are
lanes. Pure."""

from __future__ import annotations

from scheduler import ids
from scheduler.lanes import is_lane

_MESSAGE, _QUEUE, _FLOW = "msg_", "queue:", "flow:"


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


def _lane(prefix: str, name: str) -> str | None:
    lane = prefix + name
    return lane if name and is_lane(lane) else None
