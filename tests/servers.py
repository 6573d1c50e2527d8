"""The servers that tests start and own: each is a context manager, and leaves nothing behind."""

from tests.cluster import ValkeyCluster
from tests.commands import postdate, postdate_json
from tests.customer import Customer, in_days, now_ms
from tests.deployment import Deployment, script
from tests.processes import PostdateProcess, environment, postdate_process, processes_of
from tests.proxy import DroppingProxy
from tests.receiver import Answer, Received, Receiver
from tests.valkey import ValkeyProcess
from tests.waiting import DEADLINE_S, free_port, refusing_port, until, until_async

__all__ = [
    "DEADLINE_S",
    "Answer",
    "Customer",
    "Deployment",
    "DroppingProxy",
    "PostdateProcess",
    "Received",
    "Receiver",
    "ValkeyCluster",
    "ValkeyProcess",
    "environment",
    "free_port",
    "in_days",
    "now_ms",
    "postdate",
    "postdate_json",
    "postdate_process",
    "processes_of",
    "refusing_port",
    "script",
    "until",
    "until_async",
]
