"""The name of every key in the store.

All that belongs to one shard carries that shard's hash tag, so it lies in one Redis Cluster slot
and one script can change it atomically. Scripts get a prefix from here as their key, and derive
only the names below from it, which they spell `K.WAITING`. An id follows a name with a colon.
"""

from __future__ import annotations

import binascii
from functools import cache, lru_cache
from itertools import chain, count, product

from scheduler import ids

_SLOTS = 16_384
_SLOT_BITS = 14
_TAG_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

ROOT = "pd:"  # with it every key begins

# Beside the shards, each in a slot of its own
META = ROOT + "meta"  # HASH: number of shards, format, the store's id, the account that `up` made,
# each key that sealed something, the tzdata by which each shard's recurring schedules were computed
WORKERS = ROOT + "workers"  # HASH: process -> when it was heard of, and what it said of itself
APIS = ROOT + "apis"  # HASH: the same of APIs
# In the slot of WORKERS: a heartbeat notes in the same step that a worker was lost.
SERVICE_EVENTS = f"{ROOT}events{{{WORKERS}}}"  # STREAM: events of the whole service
ACTS = f"{ROOT}acts{{{WORKERS}}}"  # STREAM: operators' acts
MOST_SERVICE_EVENTS = 2000
MOST_ACTS = 10_000
FILLING = ROOT + "filling"  # HASH: half hour -> bytes that each server used
NAME = ROOT + "name:"  # <name>, STRING: an account's name, reserved -> the account's id
EMAIL = ROOT + "email:"  # <email>, STRING: an e-mail address, reserved -> the account's id,
# a space and the member's
ATTEMPTS = ROOT + "attempts:"  # <digest>, STRING: sign-ins tried, by e-mail, address or both

# Below a shard's prefix
HEADS = "heads"  # ZSET: account -> when to look at it next (ms, with a fraction); -inf: never;
# the same with a slash behind it for its lanes; with a "!" before it, when its pause ends
RESUMED = "resumed"  # ZSET: account -> when a pause of it ended (ms): lateness counts from then
CALLBACK_HEADS = "callback_heads"  # ZSET: account with pending callbacks -> when to look at them
# next (ms); -inf: it is suspended
CALLBACK_TURN = "#"  # member of HEADS: the first of CALLBACK_HEADS that is not at -inf
BACKLOG = "backlog"  # STRING: since when due ones wait (ms), while they do
PARKED = "parked"  # ZSET: account of which outcomes cannot be recorded -> when to look again (ms)
RULES_DUE = "rules_due"  # ZSET: <account>:<rule> of a recurring schedule -> when to look after its
# next occurrence (ms)
BULK_DUE = "bulk_due"  # ZSET: account with a bulk action -> when to take up its next step (ms), or
# the end of the lease (ms) of a process that does
HOLD = "hold"  # STRING: since when workers claim nothing (ms), while they are to
ACCOUNTS = "accounts"  # ZSET: account -> created (ms)
API_KEY = "apikey:"  # <sha256>, HASH: who an API key is
KEY_ID = "keyid:"  # <key>, STRING: key id -> that hash
SESSION = "session:"  # <sha256>, HASH: a signed-in browser: account, member ('': none), CSRF
# token, until when (ms), and what its next page is to say
LINK = "link:"  # <sha256>, HASH: a one-time link: account, member ('': none), purpose, epoch
WAITED = "waited"  # STRING: written before a WAIT, and deleted in the same step

# Below an account's prefix, which is the shard's, the account's local name and a colon
ACCOUNT = (
    "account"  # HASH: name, plan, ledger; `suspended` since (ms); `also` a name besides its own;
    # `paused` since (ms), `paused_until`, `paused_by` whom, `paused_note`
)
LEAVING = "leaving"  # HASH: what `account` was, from the beginning of its deletion to the end of it
KEYS = "keys"  # ZSET: key id -> created (ms)
MEMBERS = "members"  # ZSET: member -> joined (ms)
INVITED = "invited"  # ZSET: member who has not accepted yet -> until when that can be done (ms)
MEMBER = "member:"  # <member>, HASH: e-mail address, role, argon2id of the password, epoch of the
# links, SHA-256 of the newest one; of an invitation, `until` when it is good. Of no member: the
# epoch of operators' links
SESSIONS = "sessions:"  # <member>, ZSET: SHA-256 of a session -> until when it is open (ms)
WAITING = "waiting"  # ZSET: schedule -> due at (ms): triggerAt, a retry, or a lease's end
LANED = "laned"  # ZSET: the same of schedules with a lane, which are not in `waiting`
HELD = "held"  # ZSET: schedule that a worker holds -> when it was due (ms)
FAILED = "failed"  # ZSET: dead letter -> when it ended (ms); one with a reference has NUL and that
# behind its id
FAILED_REFERENCES = "failed_references"  # ZSET: reference, NUL and dead letter -> 0
REFERENCES = "references"  # ZSET: reference, NUL and schedule, of those that have not ended -> 0
LANE = "lane:"  # <lane>, HASH: its settings, pause, calm, and how far its rate is used
LANES = "lanes"  # ZSET: lane that is set or calm, or has schedules that have not ended -> 0
LANES_PAUSED = (
    "lanes_paused"  # ZSET: paused lane -> until (ms), or +inf; a moment that has passed is
)
# no pause
LANE_HEADS = "lane_heads"  # ZSET: lane with something unended -> when to look at it next (ms);
# -inf: it is paused without an end
LANE_QUEUE = "lane_queue:"  # <lane>, ZSET: schedule -> due at (ms); those that a worker holds stand
# at their lease's end, below zero if they run, above if they are only to be ended
RULE = "rule:"  # <rule>, HASH, a recurring schedule: `v` its version, `d` its definition, `r` the
# request of its occurrences, `n` the one that waits, the slot (ms) of that or of the next to be
# made, and the newest slot (ms) that was fired or missed, `c` that was cancelled, `p` its state and
# why, `m` how many slots were missed since it is blocked
RULES = "rules"  # ZSET: recurring schedule -> 0
RULE_STATES = "rule_states"  # ZSET: one that is not active -> 1 it is paused, 2 blocked, 3 ended
RULE_NAMES = "rule_names"  # HASH: a name -> the recurring schedule that has it
RULES_DELETED = "rules_deleted"  # LIST: recurring schedules that were deleted, the newest first
CALLBACK = "callback"  # HASH: where ends of schedules are reported that do not say: `url`, sealed,
# and `on`, which ends; without `on` that ended, and `url` is where those go that are pending; and
# `failing`, until when (ms) attempts that failed keep places
CALLBACKS = "callbacks"  # ZSET: ended schedule with a pending callback -> due at (ms): an attempt,
# or a lease's end
CALLING = "calling"  # ZSET: those among them that a worker holds -> lease's end (ms)
FAILED_CALLBACKS = "failed_callbacks"  # ZSET: ended schedule whose callback has failed -> when it
# did (ms); some may be forgotten
BULKS = "bulks"  # ZSET: bulk action -> asked for (ms)
BULK = (
    "bulk:"  # <action>, HASH: `r` what was asked, `p` how far it is, noted `v` times, `w` by whom
)
# last, `s` its state, `n` its next turn (ms) if it has something left to do, `c` it was closed
BULK_MADE = "bulk_made:"  # <action>, LIST: its replays, in groups, and how those ended
EXPIRING = "expiring"  # HASH: hour -> what those ended schedules weigh that are forgotten in it
TRIED = "tried"  # HASH: schedule -> attempts used, of those that have had more than one, or will
SCHEDULE = ""  # <schedule>, HASH: `r` the request, `o` the outcome, `a` its replay, `n` a retry,
# `c` its callback, `g` a dead letter that was let go
LOG = "log"  # STREAM: `e` a chunk of entries per ack, or one per cancellation; `t` totals so far
LOGGED = "logged"  # HASH: `n` entries it counts as, `first` when it was trimmed up to, `t` as there
# and `x` which indexes of URLs got their time to live of late
INDEX = "index:"  # <what>, STREAM: ids of the chunks that have a status, or a hash of a URL
MINUTE = "minute:"  # <n>, HASH: its seconds' executions, n counted from the epoch
HOUR = "hour:"  # <n>, HASH: its minutes'
DAY = "day:"  # <n>, HASH: its hours', and the ledger's movements of that day
ONCE = "once:"  # <digest>, STRING: the result of a call with an Idempotency-Key
SIGNING = "signing"  # LIST: its signing secrets, the newest first
ROTATIONS = "rotations"  # LIST: once-keys of rotations of its signing secrets, the newest first
RATE = "rate"  # STRING: the moment (us) until which its requests are paid for
RESENDS = "resends"  # STRING: the same of callbacks that it has sent again, or will have by then
NOTED = "noted"  # STRING: the moment (us) until which answers that cost no credit are paid for
SCANS = "scans"  # STRING: the moment (us) until which its searches are paid for
EVENTS = "events"  # STREAM: its own events: who did what, and calm lanes
MOST_OWN_EVENTS = 500
OPERATION = "op:"  # <operation>, STRING: one that was done, for a repeat of it
# Patterns for SCAN. An account's local name has eight characters; what follows may have colons.
# Only a schedule begins with a digit, so its key needs no name before it. So the key has 43
# characters: with 44 malloc would take 16 bytes more for it.
_LOCAL = 8
_OF_ANY_ACCOUNT = ROOT + "{*}" + _LOCAL * "?" + ":"
ALL_SCHEDULES = _OF_ANY_ACCOUNT + "[0-7]*"
ALL_NOTES = _OF_ANY_ACCOUNT + ONCE + "*"
ALL_RULES = _OF_ANY_ACCOUNT + RULE + "*"
ALL_LANES = _OF_ANY_ACCOUNT + LANE[:-1] + "[:_]*:*"


@cache
def shard(number: int) -> str:
    return f"{ROOT}{{{tag(number)}}}"


@lru_cache(maxsize=65_536)
def account(account_id: str) -> str:
    """The prefix of all that an account owns. Raises ValueError if it is no account's id."""
    number, local = parts(account_id)
    return f"{shard(number)}{local}:"


@lru_cache(maxsize=65_536)
def parts(account_id: str) -> ids.Sharded:
    """An account's shard, and its name there. Raises ValueError if it is no account's id."""
    found = ids.parse_sharded(account_id, "acc")
    if found is None:
        raise ValueError(f"not an account id: {account_id!r}")
    return found


def is_prefix(key: str | bytes) -> bool:
    """Whether it is the prefix of a shard or of an account, and no key's name."""
    name = key if isinstance(key, str) else key.decode(errors="replace")
    return name.endswith(":") or (name.endswith("}") and name.startswith(ROOT + "{"))


def split(key: bytes) -> tuple[bytes, bytes]:
    """The account's prefix, and what follows it, of a key that has one."""
    end = key.index(b"}") + 1 + _LOCAL + len(":")
    return key[:end], key[end:]


def schedule(account_id: str, schedule_id: str) -> str:
    return f"{account(account_id)}{SCHEDULE}{ids.local(schedule_id)}"


def waited(key: str) -> str:
    """The key to write before a WAIT for what was written to `key`, in the same slot. None of its
    name comes from a user: a name that is made by appending to `key` may be another user's."""
    if key.startswith(ROOT + "{"):
        return key[: key.index("}") + 1] + WAITED
    number = int(f"{slot_of(key):0{_SLOT_BITS}b}"[::-1], 2)
    return f"{ROOT}{{{tag(number)}}}{WAITED}"


def tag(number: int) -> str:
    """A shard's hash tag: the first short string whose slot is the shard's number with its bits
    reversed. So any number of shards is even over the slots, and no tag changes when there come to
    be more. (Plain numbers as tags put 16 shards 8/4/4 on three nodes.)"""
    wanted = int(f"{number:0{_SLOT_BITS}b}"[::-1], 2)
    words = (product(_TAG_ALPHABET, repeat=length) for length in count(1))
    texts = map("".join, chain.from_iterable(words))
    return next(text for text in texts if slot(text) == wanted)


def slot(text: str) -> int:
    """The Redis Cluster slot of a tag: CRC16-CCITT (XMODEM) modulo 16,384."""
    return binascii.crc_hqx(text.encode(), 0) % _SLOTS


def slot_of(key: str | bytes) -> int:
    """The slot of a key, or of a prefix that has its tag."""
    key = key if isinstance(key, str) else key.decode()
    _, brace, rest = key.partition("{")
    found, brace, _ = rest.partition("}")
    return slot(found if brace and found else key)
