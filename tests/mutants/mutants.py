"""The mutants, as data: one for each rule that a broken one of its kind once went unnoticed.

Each replaces one passage, which must stand in its file exactly once, and names the tests that are
to fail with it. A rule that moves takes its mutant along.
"""

from __future__ import annotations

from typing import NamedTuple

STORE = "scheduler/store/"


class Mutant(NamedTuple):
    """`instead` of `text` in `file` breaks what `name` says; `tests`, as pytest takes them,
    notice."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]


# What takes a write from any page of any site.
_UNJUDGED = """    from api.dashboard.csrf import read_form
    from api.dashboard.session import signed_in
    {names} = await signed_in(request), await read_form(request)
"""
# Each write of the dashboard: its file, and what follows its check.
_WRITES = (
    ("a new password", "holder.py", "viewer, form", "    users ="),
    ("an API key", "keys.py", "viewer, form", "    name ="),
    ("a deactivation", "keys.py", "viewer, _", "    key ="),
    ("a bulk action", "requests/bulk.py", "viewer, form", "    store ="),
    ("a composed request", "requests/composer.py", "viewer, form", "    service ="),
    ("a cancellation", "requests/actions.py", "viewer, _", "    try:"),
    ("a new time", "requests/actions.py", "viewer, form", "    service ="),
    ("a repetition", "requests/actions.py", "viewer, form", "    store ="),
    ("a sign-out", "signin.py", "viewer, form", "    sessions ="),
    ("a rotation", "signing.py", "viewer, form", "    try:"),
    ("a grant", "system.py", "viewer, form", "    judged_operator"),
    ("a choice of a zone", "zone.py", "_, form", "    zone ="),
)


def _from_anywhere(name: str, file: str, names: str, next_line: str) -> Mutant:
    even = ", even_suspended=True" if file in ("holder.py", "signin.py", "zone.py") else ""
    return Mutant(
        f"{name} is taken from any page",
        f"api/dashboard/{file}",
        f"    {names} = await written(request{even})\n{next_line}",
        _UNJUDGED.format(names=names) + next_line,
        ("tests/dashboard/test_writes.py",),
    )


MUTANTS = (
    # The store
    Mutant(
        "certainly not done, after a lost reply",
        STORE + "server.py",
        "                if not maybe_done:\n                    raise\n",
        "                raise\n",
        ("tests/scheduler/test_repeated.py",),
    ),
    Mutant(
        "certainly not done, after the last attempt",
        STORE + "server.py",
        "            if maybe_done:\n                raise OutcomeUnknown(",
        "            if False:\n                raise OutcomeUnknown(",
        ("tests/scheduler/test_repeated.py",),
    ),
    Mutant(
        "a cancelled body goes on counting",
        STORE + "schedules/cancel.lua",
        "redis.call('HINCRBY', account, 'bytes', #ARGV[11] - #stored[1])\n",
        "",
        ("tests/scheduler/test_quota.py",),
    ),
    Mutant(
        "what was said to an attempt before is told as the last one's",
        STORE + "schedules/stored.py",
        "return Answer(content_type, body) if of_attempts == attempts else None",
        "return Answer(content_type, body)",
        ("tests/scheduler/test_answers.py",),
    ),
    Mutant(
        "what targets said keeps the key that it was sealed with",
        STORE + "operators/unsealed.lua",
        "ipairs({'r', 's'})",
        "ipairs({'r'})",
        ("tests/scheduler/test_reseal.py",),
    ),
    Mutant(
        "what has ended is never taken off the count",
        STORE + "schedules/create.lua",
        "      settle(base, account.over)\n",
        "      redis.call('PING')\n",
        ("tests/scheduler/test_quota.py",),
    ),
    Mutant(
        "a dead letter that was replayed counts as long as before",
        STORE + "schedules/weight.inc.lua",
        "    note_expiring(base, -bytes, before_ms)\n    note_expiring(base, bytes, at_ms)\n",
        "",
        ("tests/scheduler/test_quota.py",),
    ),
    Mutant(
        "an index is trimmed to its newest",
        STORE + "log/append.inc.lua",
        "'MINID', '~', math.max(0, first - 1), id,",
        "'MINID', '~', now_ms, id,",
        ("tests/scheduler/test_chunks.py", "-k", "one_by_one"),
    ),
    Mutant(
        "a plan's rate is forgotten at once",
        STORE + "accounts/admit.lua",
        "'PX', 2000)",
        "'PX', 20)",
        ("tests/scheduler/test_rates.py",),
    ),
    Mutant(
        "a plan's rate is forgotten before it is paid for",
        STORE + "accounts/admit.lua",
        "'PX', 2000)",
        "'PX', 900)",
        ("tests/scheduler/test_rates.py",),
    ),
    Mutant(
        "a once-key never expires",
        STORE + "schedules/create.lua",
        "redis.call('SET', key, note, 'PX', once_ttl_ms)",
        "redis.call('SET', key, note)",
        ("tests/scheduler/test_once_keys.py",),
    ),
    Mutant(
        "what comes in with an early time pushes ahead",
        STORE + "due.inc.lua",
        "math.max(at, now_ms)",
        "at",
        ("tests/scheduler/test_turns.py", "-k", "push_ahead"),
    ),
    Mutant(
        "a flood keeps its turn",
        STORE + "claims/claim.lua",
        "string.format('%.3f', math.max(due, turn))",
        "string.format('%.3f', due)",
        ("tests/scheduler/test_fairness.py", "-k", "forty"),
    ),
    Mutant(
        "who is passed over is claimed from",
        STORE + "claims/claim.lua",
        "  passed_over[ARGV[i]] = true\n",
        "",
        ("tests/scheduler/test_fairness.py", "-k", "passed_over"),
    ),
    Mutant(
        "the dead are never forgotten",
        STORE + "operators/heartbeat.lua",
        "each[1] > tonumber(ARGV[4])",
        "each[1] > 1e15",
        ("tests/scheduler/test_workers.py",),
    ),
    Mutant(
        "a takeover is a first attempt",
        STORE + "claims/claim.lua",
        "(held_since[i] and 1 or 0)) + 1",
        "0) + 1",
        ("tests/scheduler/test_lease.py", "-k", "fakeredis"),
    ),
    Mutant(
        "a third attempt is a second",
        STORE + "claims/claim.lua",
        "          tried[#tried + 1], tried[#tried + 2] = schedule, attempt\n",
        "",
        ("tests/scheduler/test_lease.py", "-k", "fakeredis"),
    ),
    Mutant(
        "a release uses up its attempt",
        STORE + "claims/claims.py",
        "each.due_at_ms, each.attempt - 1)",
        "each.due_at_ms, each.attempt)",
        ("tests/scheduler/test_lease.py", "-k", "release"),
    ),
    Mutant(
        "a release forgets the attempts before",
        STORE + "claims/release.lua",
        "redis.call('HSET', tried, schedule, ARGV[i + 4])",
        "redis.call('HDEL', tried, schedule)",
        ("tests/scheduler/test_lease.py", "-k", "release and fakeredis"),
    ),
    Mutant(
        "an extension forgets an attempt used up by the worker",
        STORE + "claims/extend.lua",
        "if tonumber(ARGV[i + 3]) > 1 then",
        "if tonumber(ARGV[i + 3]) > 2 then",
        ("tests/scheduler/test_lease.py", "-k", "fakeredis"),
    ),
    Mutant(
        "replies of a call that was given up are the next call's",
        STORE + "line.py",
        "                call = waiting[0]\n",
        "                while len(waiting) > 1 and waiting[0].future.done():\n"
        "                    waiting.popleft()\n"
        "                call = waiting[0]\n",
        ("tests/scheduler/test_line.py",),
    ),
    Mutant(
        "a line is used on after a reply that did not come",
        STORE + "line.py",
        '            self.close(exceptions.TimeoutError("Timeout reading from the server"))\n',
        "            call = self._waiting.popleft()\n"
        '            call.future.set_exception(exceptions.TimeoutError("Timeout"))\n',
        ("tests/scheduler/test_line.py",),
    ),
    Mutant(
        "the number of shards is read once",
        STORE + "operators/shards.py",
        "            await self.read()\n        return self.count",
        "        return self.count",
        ("tests/scheduler/test_accounts.py", "-k", "more_shards"),
    ),
    # Acks
    Mutant(
        "a refused batch is dropped whole",
        "worker/acks.py",
        "        if len(batch) > 1:\n",
        "        if False:\n",
        ("tests/worker/test_acks.py",),
    ),
    Mutant(
        "an unforeseen exception ends the sender",
        "worker/acks.py",
        "            except Exception as error:\n",
        "            except ZeroDivisionError as error:\n",
        ("tests/worker/test_acks.py",),
    ),
    Mutant(
        "an unforeseen exception is repeated for ever",
        "worker/acks.py",
        "                if stumbles > _STUMBLES:\n",
        "                if False:\n",
        ("tests/worker/test_acks.py",),
    ),
    Mutant(
        "batches of any weight",
        "worker/acks.py",
        "        if left < 0:\n",
        "        if False:\n",
        ("tests/worker/test_acks.py",),
    ),
    Mutant(
        "an ack that the store did not take does not lose touch",
        "worker/acks.py",
        "                self._touch.lose([shard], error)\n",
        "                pass\n",
        ("tests/worker/test_acks.py",),
    ),
    # Leases
    Mutant(
        "no grace after the store's start",
        "worker/leases.py",
        "max(0, lease_ms - store_uptime_ms)",
        "0",
        ("tests/worker/test_leases.py",),
    ),
    Mutant(
        "the store's uptime is not asked",
        "worker/worker.py",
        "1000 * store.uptime_s",
        "settings.lease_ms",
        ("tests/worker/test_worker.py", "-k", "stores_start"),
    ),
    Mutant(
        "no grace for a shard that is back",
        "worker/leases.py",
        "            self._grace_until_s[shard] = elapsed_s() + self._lease_s\n",
        "",
        ("tests/worker/test_leases.py",),
    ),
    Mutant(
        "a claim in grace takes over",
        "worker/claimer.py",
        "0 if self._touch.has_grace(shard) else self._store.clock.now_ms()",
        "self._store.clock.now_ms()",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "no extension before claiming again",
        "worker/worker.py",
        "            await self._leases.extend(shard)\n",
        "            pass\n",
        ("tests/worker/test_worker.py", "-k", "away"),
    ),
    Mutant(
        "no ack before claiming again",
        "worker/worker.py",
        "        await self._acks.settle(shard, _ACKS_FIRST_S)\n",
        "",
        ("tests/worker/test_worker.py", "-k", "away"),
    ),
    Mutant(
        "answers are parsed without a ration",
        "worker/ration.py",
        "        if (self._waiting and not self._is_serving) or self._left <= 0:\n",
        "        if False:\n",
        ("tests/worker/test_wire_bytes.py",),
    ),
    Mutant(
        "what is due goes out in one round",
        "worker/volley.py",
        "        while self._waiting and time.monotonic() < until_s:\n",
        "        while self._waiting:\n",
        ("tests/worker/test_volley.py",),
    ),
    Mutant(
        "all handshakes step at once",
        "worker/handshakes.py",
        "_STEPS_IN_A_ROUND = 4\n",
        "_STEPS_IN_A_ROUND = 4000\n",
        ("tests/worker/test_handshakes.py",),
    ),
    Mutant(
        "claims bring what weighs too much",
        "worker/room.py",
        "        return self._slots <= 0 or self._bytes <= 0\n",
        "        return self._slots <= 0\n",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "a large certificate is read",
        "worker/handshakes.py",
        "    if received > MAX_HANDSHAKE_BYTES:\n",
        "    if False:\n",
        ("tests/worker/test_handshakes.py",),
    ),
    Mutant(
        "large certificates are kept without bound",
        "worker/handshakes.py",
        "        while not self._unusual.take(account_id, weight):\n",
        "        while False:\n",
        ("tests/worker/test_handshakes.py",),
    ),
    Mutant(
        "a lease that may have ended is sent",
        "worker/firer.py",
        " or elapsed_s() > invocation.lease_until_s - _LEASE_MARGIN_S\n",
        "\n",
        ("tests/worker/test_unsure.py",),
    ),
    Mutant(
        "a lease that ends before its request arrives is sent",
        "worker/firer.py",
        "_LEASE_MARGIN_S = 0.25",
        "_LEASE_MARGIN_S = 0.0",
        ("tests/worker/test_unsure.py",),
    ),
    Mutant(
        "what was sent once is postponed",
        "worker/firer.py",
        "        if fire.resent:\n            self._give_up(fire, wire, failed(",
        "        if False:\n            self._give_up(fire, wire, failed(",
        ("tests/worker/test_unsure.py",),
    ),
    Mutant(
        "what another has by now is fired",
        "worker/worker.py",
        "        gone = set(lost)\n",
        "        gone: set[Invocation] = set()\n",
        ("tests/worker/test_worker.py",),
    ),
    Mutant(
        "a confirmation that failed is forgotten",
        "worker/worker.py",
        "            self._to_confirm.setdefault(shard, []).extend(unsure)\n",
        "",
        ("tests/worker/test_worker.py",),
    ),
    Mutant(
        "what is unsure is fired by a worker that drains",
        "worker/worker.py",
        "        if self._draining:\n            await self._give_back(ours)",
        "        if False:\n            await self._give_back(ours)",
        ("tests/worker/test_worker.py",),
    ),
    Mutant(
        "a drain leaves what lies in the wheel",
        "worker/worker.py",
        "self._give_back(self._wheel.clear() + ",
        "self._give_back(",
        ("tests/worker/test_worker.py",),
    ),
    Mutant(
        "an ack knows nothing of an extension on its way",
        STORE + "claims/claims.py",
        '            each.token = f"{each.token}:{ends_us}"\n',
        "",
        ("tests/scheduler/test_tokens.py", "-k", "being_prolonged"),
    ),
    Mutant(
        "leases of a shard are prolonged by several calls at a time",
        "worker/leases.py",
        "        async with self._asking[shard]:\n            return await self._confirm(",
        "        if True:\n            return await self._confirm(",
        ("tests/worker/test_leases.py",),
    ),
    Mutant(
        "a shard that is away keeps the others from being given back",
        "worker/worker.py",
        '_log.warning("not given back; the leases will end", error=str(error))\n',
        "raise\n",
        ("tests/worker/test_worker.py",),
    ),
    # The claimer
    Mutant(
        "after a pause a worker takes over from itself",
        "worker/claimer.py",
        "        self._notice_pause()\n",
        "",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "floods are not kept from filling a worker",
        "worker/claimer.py",
        "pass_over=self._holdings.crowding(),",
        "pass_over=[],",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "nobody crowds",
        "worker/holdings.py",
        "_SHARE_OF_FREE = 4",
        "_SHARE_OF_FREE = 10**6",
        ("tests/worker/test_holdings.py", "tests/worker/test_claimer.py"),
    ),
    Mutant(
        "what is not late is claimed from the shards of others",
        "worker/claimer.py",
        "ahead_ms=self._ahead_ms if own else -_LATE_MS,",
        "ahead_ms=self._ahead_ms,",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "nobody helps with a backlog",
        "worker/claimer.py",
        "                self._backlogged.add(shard)\n",
        "                pass\n",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "help never ends",
        "worker/claimer.py",
        "            self._backlogged.discard(shard)\n",
        "",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "a slow store is not lost",
        "worker/claimer.py",
        "            found = dict.fromkeys(found, slow)\n",
        "",
        ("tests/worker/test_claimer.py",),
    ),
    Mutant(
        "who lacks a key keeps its shards",
        "worker/presence.py",
        "self.yields = lacks and bool(able)",
        "self.yields = False",
        ("tests/worker/test_presence.py",),
    ),
    Mutant(
        "the dead keep their shards",
        "worker/presence.py",
        "preferred_shards(self._worker_id, others, count)",
        "preferred_shards(self._worker_id, [], count)",
        ("tests/worker/test_presence.py",),
    ),
    Mutant(
        "shards that were added are nobody's",
        "worker/presence.py",
        "await self._store.shards.newest()",
        "self._store.shards.count",
        ("tests/worker/test_presence.py",),
    ),
    # The way of a fire
    Mutant(
        "expired at its very millisecond",
        "worker/outcome.py",
        "now_ms > request.expires_at_ms",
        "now_ms >= request.expires_at_ms",
        ("tests/worker/test_outcome.py",),
    ),
    Mutant(
        "a dead connection is used again",
        "worker/pool.py",
        "                if not wire.is_open:\n                    continue\n",
        "",
        ("tests/worker/test_pool.py",),
    ),
    Mutant(
        "a connection from before the machine slept is used again",
        "worker/pool.py",
        "if elapsed_s() - wire.idle_since_s < _STALE_S:",
        "if True:",
        ("tests/worker/test_suspended.py",),
    ),
    Mutant(
        "the store's clock stops while the machine sleeps",
        STORE + "clock.py",
        " + self._offset_us + self._asleep_us()",
        " + self._offset_us",
        ("tests/worker/test_suspended.py",),
    ),
    Mutant(
        "a reply from before a sleep sets the store's clock back",
        STORE + "clock.py",
        "if knows_of_it or self",
        "if True or self",
        ("tests/worker/test_suspended.py",),
    ),
    Mutant(
        "a walk of replays leaves out the millisecond in which it began",
        STORE + "schedules/replays.py",
        "until_ms = now_ms + 1",
        "until_ms = now_ms",
        ("tests/scheduler/test_replays.py",),
    ),
    Mutant(
        "a cause is never over",
        "worker/shelf.py",
        "return now_s - self.met_s > _OVER_AFTER_S",
        "return False",
        ("tests/worker/test_shelf.py",),
    ),
    Mutant(
        "what a lost worker may have sent expires as unsent",
        "worker/outcome.py",
        "if lost and (expired or given_up or",
        "if lost and (given_up or",
        ("tests/worker/test_outcome.py",),
    ),
    Mutant(
        "of two API keys the first counts",
        "api/auth.py",
        "if len(keys) > 1:",
        "if False:",
        ("tests/api/test_auth.py",),
    ),
    Mutant(
        "a carriage return overwrites a line",
        "scheduler/texts.py",
        "]|\\r(?!\\n)",
        "]",
        ("tests/scheduler/test_texts.py",),
    ),
    Mutant(
        "a wire with an unsent rest is used again",
        "worker/wire.py",
        "return self._rest is None and ",
        "return ",
        ("tests/worker/test_wire_bytes.py",),
    ),
    Mutant(
        "a wire with a full buffer is used again",
        "worker/wire.py",
        " and self._transport.get_write_buffer_size() == 0\n",
        "\n",
        ("tests/worker/test_wire_bytes.py",),
    ),
    Mutant(
        "a known answer is taken for one to a request that is still going out",
        "worker/wire.py",
        " and not self._head_only and self.has_sent_all:\n",
        " and not self._head_only:\n",
        ("tests/worker/test_wire_bytes.py",),
    ),
    Mutant(
        "the middle of an answer is taken for a known one",
        "worker/wire.py",
        "if data == self._known and self._is_clear and ",
        "if data == self._known and ",
        ("tests/worker/test_wire_bytes.py",),
    ),
    Mutant(
        "an address of this machine is gone to",
        "worker/guard.py",
        "return not self._destinations.opens(address) and self._is_own(text)",
        "return False",
        ("tests/worker/test_guard.py",),
    ),
    Mutant(
        "what cannot be asked for is taken for another's",
        "worker/guard.py",
        "        except OSError:  # nobody could be asked whose it is\n"
        "            return _none(Failure.UNRESOLVED)\n",
        "        except OSError:\n            return _Found((host,), None)\n",
        ("tests/worker/test_guard.py",),
    ),
    Mutant(
        "a customer learns which names there are inside",
        "worker/outcome.py",
        "return Failure.NO_DESTINATION if failure in hidden else failure",
        "return failure",
        ("tests/worker/test_firer.py",),
    ),
    Mutant(
        "a resolver that stumbles takes an answer back",
        "worker/guard.py",
        "elif found.failure is Failure.UNRESOLVED and old and now < old.usable_until_s:",
        "elif False and old is not None:",
        ("tests/worker/test_guard.py",),
    ),
    Mutant(
        "an attempt is sent before it is told",
        "worker/fire.py",
        "            self.firer.note_resent(self.invocation)\n"
        "            self.firer.connect(self)\n",
        "            self.firer.connect(self)\n"
        "            self.firer.note_resent(self.invocation)\n",
        ("tests/worker/test_wire.py", "-k", "used_up"),
    ),
    Mutant(
        "a pause is charged to what was not sent",
        "worker/deadlines.py",
        "            if not entry.is_sent:\n",
        "            if False:\n",
        ("tests/worker/test_deadlines.py",),
    ),
    Mutant(
        "what came during a pause is not read first",
        "worker/deadlines.py",
        "_READ_FIRST_S = 0.1",
        "_READ_FIRST_S = -1.0",
        ("tests/worker/test_deadlines.py",),
    ),
    Mutant(
        "the wheel believes a clock from before its claim",
        "worker/wheel.py",
        "_Turn(deque(by_time), self._clock.offset_since_us(reading), reading)",
        "_Turn(deque(by_time), self._clock.offset_since_us(0), reading)",
        ("tests/worker/test_wheel.py",),
    ),
    # End to end
    Mutant(
        "a frozen worker times out what it had not sent",
        "worker/deadlines.py",
        "_PAUSE_S = 1.0",
        "_PAUSE_S = 1e6",
        ("tests/faults/test_worker_frozen.py", "-k", "alone"),
    ),
    Mutant(
        "a frozen worker sends what another has taken over",
        "worker/firer.py",
        "signed is None or elapsed_s() > invocation.lease_until_s - _LEASE_MARGIN_S",
        "signed is None",
        ("tests/faults/test_worker_frozen.py", "-k", "another"),
    ),
    # Retries
    Mutant(
        "a 5xx is the last word",
        "worker/retries.py",
        "return code in _RETRIED or 500 <= code < 600",
        "return code in _RETRIED",
        ("tests/worker/test_retries.py",),
    ),
    Mutant(
        "at most once is retried after it was sent",
        "worker/retries.py",
        "return not sent or request.delivery is not Delivery.AT_MOST_ONCE",
        "return True",
        ("tests/worker/test_retries.py",),
    ),
    Mutant(
        "an attempt is made after its expiresAt",
        "worker/retries.py",
        "at_ms > request.expires_at_ms:",
        "at_ms < 0:",
        ("tests/worker/test_retries.py",),
    ),
    Mutant(
        "a target may ask to wait for years",
        "worker/retries.py",
        "return min(int(retry_after) * 1000, LONGEST_ASKED_MS)",
        "return int(retry_after) * 1000",
        ("tests/worker/test_retries.py",),
    ),
    Mutant(
        "a retry whose reply was lost is another worker's",
        STORE + "claims/retry.lua",
        "return known and string.sub(known, 13) == packed",
        "return false",
        ("tests/scheduler/test_lost_replies.py", "-k", "retr"),
    ),
    Mutant(
        "what was attempted meanwhile is stopped by what it was before",
        STORE + "schedules/stop.lua",
        "if stored[3] ~= ARGV[3] or stored[1] ~= ARGV[4] then",
        "if stored[1] ~= ARGV[4] then",
        ("tests/scheduler/test_retries.py",),
    ),
    Mutant(
        "a worker is not told what the attempts before came to",
        STORE + "claims/claim.lua",
        "local before = used[i] and redis.call('HGET', key .. schedule, 'n') or ''",
        "local before = ''",
        ("tests/scheduler/test_retries.py",),
    ),
    # Hold and restore
    Mutant(
        "a shard on hold is claimed from",
        STORE + "claims/claim.lua",
        "if not only and redis.call('EXISTS', prefix .. K.HOLD) == 1 then",
        "if false then",
        ("tests/scheduler/test_hold.py",),
    ),
    Mutant(
        "a restore takes what a worker may be sending",
        STORE + "operators/unlease.lua",
        "if lease_end > now_ms then",
        "if false then",
        ("tests/scheduler/test_hold.py",),
    ),
    Mutant(
        "at most once is sent again after a restore",
        STORE + "operators/unlease.lua",
        "    redis.call('HSETNX', base .. K.TRIED, schedule, 1)\n",
        "",
        ("tests/scheduler/test_hold.py",),
    ),
    # The dashboard
    *(_from_anywhere(*each) for each in _WRITES),
    Mutant(
        "a link is redeemed from any page",
        "api/dashboard/signin.py",
        "    judge_origin(request)\n    form = await read_form(request)\n    store =",
        "    form = await read_form(request)\n    store =",
        ("tests/dashboard/test_writes.py",),
    ),
    Mutant(
        "a browser is signed in from any page",
        "api/dashboard/signin.py",
        "    judge_origin(request)\n    form = await read_form(request)\n    email,",
        "    form = await read_form(request)\n    email,",
        ("tests/dashboard/test_writes.py",),
    ),
    Mutant(
        "any account grants credits",
        "api/dashboard/system.py",
        "    judged_operator(viewer)\n    account_id",
        "    account_id",
        ("tests/dashboard/test_writes.py",),
    ),
    Mutant(
        "the holder of any account deactivates an API key",
        "api/dashboard/keys.py",
        "    key = await _own_key(request, viewer, key_id)\n"
        "    await service_of(request).store.api_keys.deactivate(key.key_id)\n",
        "    await service_of(request).store.api_keys.deactivate(key_id)\n",
        ("tests/dashboard/test_writes.py",),
    ),
    Mutant(
        "the holder of a suspended account writes",
        "api/dashboard/csrf.py",
        "if viewer.account.suspended and not even_suspended:",
        "if False:",
        ("tests/dashboard/test_writes.py",),
    ),
    Mutant(
        "signing secrets end at once without a question",
        "api/dashboard/signing.py",
        '    if not keep_ms and not form.get("confirmed"):\n',
        "    if False:\n",
        ("tests/dashboard/test_pages.py", "-k", "at_once"),
    ),
)
