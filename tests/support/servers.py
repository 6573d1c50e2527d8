"""The servers that tests start and own: each is a context manager, and leaves nothing behind."""

from tests.support.cluster import ValkeyCluster
from tests.support.commands import postdate, postdate_json
from tests.support.customer import Customer, in_days, now_ms
from tests.support.deployment import Deployment, script
from tests.support.processes import PostdateProcess, environment, postdate_process, processes_of
from tests.support.proxy import DroppingProxy
from tests.support.receiver import Answer, Received, Receiver
from tests.support.valkey import ValkeyProcess
from tests.support.waiting import DEADLINE_S, free_port, refusing_port, until, until_async

__all__ = [
    "DEADLINE_S", "Answer", "Customer", "Deployment", "DroppingProxy", "PostdateProcess",
    "Received", "Receiver", "ValkeyCluster", "ValkeyProcess", "environment", "free_port",
    "in_days", "now_ms", "postdate", "postdate_json", "postdate_process", "processes_of",
    "refusing_port", "script", "until", "until_async",
]  # fmt: skip
