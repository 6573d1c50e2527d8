"""The Python client of Postdate: HTTP requests, performed at a chosen future time.

from postdate import Postdate

with Postdate("http://127.0.0.1:8000", api_key) as postdate:
    postdate.schedule("https://example.com/hook", in_=60, json={"hello": "future"})
"""

from postdate._schema import CallbackOn, Delivery
from postdate.buffer import Buffer
from postdate.client import AsyncPostdate, Postdate
from postdate.errors import (
    Conflict,
    ConnectionFailed,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    NotFound,
    PostdateError,
    PreconditionFailed,
    RateLimited,
    Reason,
    Suspended,
    Unauthorized,
    Unavailable,
)
from postdate.new import NewSchedule
from postdate.recurring import (
    CreatedRecurring,
    DeletedRecurring,
    Preview,
    Recurring,
    RecurringState,
)
from postdate.results import (
    Account,
    Callback,
    CallbackStatus,
    Cancelled,
    CancelledMany,
    ClearedLane,
    Created,
    HeldBy,
    HoldCause,
    Lane,
    LaneState,
    LogEntry,
    LogFilter,
    LogStatus,
    Phases,
    Replayed,
    Resent,
    Schedule,
    SigningSecret,
    Stats,
    Status,
    StatusFilter,
    TimeRange,
)
from postdate.webhooks import ScheduleEnded, VerificationFailed, verify

__all__ = [
    "Account",
    "AsyncPostdate",
    "Buffer",
    "Callback",
    "CallbackOn",
    "CallbackStatus",
    "Cancelled",
    "CancelledMany",
    "ClearedLane",
    "Conflict",
    "ConnectionFailed",
    "Created",
    "CreatedRecurring",
    "DeletedRecurring",
    "Delivery",
    "FieldError",
    "HeldBy",
    "HoldCause",
    "InsufficientCredits",
    "InvalidRequest",
    "Lane",
    "LaneState",
    "LogEntry",
    "LogFilter",
    "LogStatus",
    "NewSchedule",
    "NotFound",
    "Phases",
    "Postdate",
    "PostdateError",
    "PreconditionFailed",
    "Preview",
    "RateLimited",
    "Reason",
    "Recurring",
    "RecurringState",
    "Replayed",
    "Resent",
    "Schedule",
    "ScheduleEnded",
    "SigningSecret",
    "Stats",
    "Status",
    "StatusFilter",
    "Suspended",
    "TimeRange",
    "Unauthorized",
    "Unavailable",
    "VerificationFailed",
    "verify",
]
