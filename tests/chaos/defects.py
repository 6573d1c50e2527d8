"""Defects that a run has to notice: `make chaos ARGS=--defects` plants each in a copy of the tree,
makes one short run with it, and prints the promises that were broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from tests.mutants.mutants import Mutant, applied, copied, read

_RUN = ("--seconds", "20", "--margin-ms", "5000")
# As tests/mutants/mutants.py reads them; after the file stand the promise that is broken, and the
# options of a run that notices.
_DEFECTS = r"""
@ worker/acks.py "sent again: a worker had lost it"
# a quarter of all outcomes is thrown away
- shard = ack.invocation.shard
-         self._waiting
+ shard = ack.invocation.shard
+         if __import__('random').random() < 0.25:
+             self._holdings.remove([ack.invocation])
+             return
+         self._waiting
@ worker/send/outcome.py "at-most-once: once"
# an at-most-once request is sent again after its worker was lost
~ (expired or given_up[- or request.delivery is Delivery.AT_MOST_ONCE-])
@ worker/send/outcome.py "expired: not sent"
# an expired request is sent
~ expired = [-request.expires_at_ms is not None and now_ms > request.expires_at_ms-]{+False+}
@ scheduler/store/lifecycle/end/end.lua "the ledger balances"
# a cancellation refunds two credits
~ {count{+ + 1+}, -count, -group.less}
# cancelling many refunds nothing
~ {count{+ > 1 and 0 or 1+}, -count, -group.less}
@ scheduler/store/lifecycle/create/replay.inc.lua "the ledger balances"
# a replay takes two credits
- if not there[new] and not found then
+ if not there[new] and not found then
+       account.left = account.left - 1
@ scheduler/store/lifecycle/create/replay.inc.lua "replayed: in bulk once"
# many are replayed again that were replayed before
~ elseif [-(ended[2] or account.originals[key]) and not again-]{+false+} then
@ scheduler/store/lifecycle/create/create.lua "a repeated create is one schedule"
# an Idempotency-Key is forgotten
~ elseif [-group.once and (paid or met or not opens_note(group))-]{+false+} then
@ scheduler/store/lifecycle/create/on_existing.inc.lua "onExisting: one waits, the last stands"
# a replacement is stored as another schedule
~ elseif one {+and way ~= 'r' +}then
@ worker/send/outcome.py "retried: as asked, and no sooner"
# retries come in half of their time
~ [-1-]{+0.5+} + SPREAD * chance
@ scheduler/store/lifecycle/claim/claim.lua "on hold: nothing goes out" --faults stop --seconds 60
# one claim in ten ignores a hold
~ redis.call('EXISTS', prefix .. K.HOLD) == 1 {+and now_us % 10 > 0 +}then
@ scheduler/store/lifecycle/claim/claim.lua "fired in time" --faults fill --margin-ms 500
# nothing is claimed in a full store
~ #!lua[- flags=allow-oom-]
@ scheduler/store/lifecycle/end/end.lua "ended in time" --faults fill --margin-ms 500
# no outcome is recorded in a full store
~ #!lua[- flags=allow-oom-]
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua "a lane's rate: no second has more" --faults stop
# starts in a lane are not spaced
~ lane.tat = math.max(start, lane.tat)[- + lane.interval-]
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua "a lane's parallelism: no more at once" --faults stop --seconds 45
# a schedule of a lane takes no place
~ lane.places = lane.places - [-1-]{+0+}
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua "a lane's parallelism: no more at once" --faults "kill workers" --seconds 30
# what a lost worker had in a lane takes no place and no slot
~ elseif lane.is_free {+or is_held +}then
@ scheduler/store/lifecycle/claim/claim_lanes.inc.lua "a lane's order: by due time" --faults stop --seconds 45
# of what is due in a lane the latest comes first
- redis.call('ZRANGE', members, 0, most, 'WITHSCORES')
+ redis.call('ZRANGE', members, due_by, 0, 'BYSCORE', 'REV', 'LIMIT', 0, most + 1, 'WITHSCORES')
@ scheduler/store/lifecycle/row/lane.inc.lua "paused: nothing starts" --faults stop --seconds 45
# a lane's pause is noted, and does not hold
~ lane.shut = math.max(lane.shut, [-ends-]{+0+})
@ scheduler/store/lifecycle/row/lane.inc.lua "calm: nothing starts in the lane" --faults stop --seconds 45
# a calm is noted, and does not hold
~ lane.shut = [-lane.calm-]{+0+}
@ scheduler/store/lifecycle/callback/claim_callbacks.inc.lua "called back: as it ended" --faults kill freeze --seconds 45
# a callback is lost with its worker
~ not [-(calling[i] and tonumber(due[2 * i]) > asked_at)-]{+calling[i]+}
@ scheduler/store/lifecycle/callback/resend.lua "called back: as it ended"
# a callback that is to be sent again is not
- await_callbacks(queue, {}, due)
@ scheduler/store/lifecycle/end/end.lua "called back: none that wants none"
# a cancellation is reported
- redis.call('PEXPIRE', name, kept_ms)
+ redis.call('PEXPIRE', name, kept_ms)
+     redis.call('HSET', name, 'c', 'p' .. ended_at)
+     redis.call('ZADD', group.base .. K.CALLBACKS, now_ms, schedule)
+     redis.call('ZADD', prefix .. K.CALLBACK_HEADS, 'LT', now_ms, group.account)
@ worker/endings.py "called back: as it ended"
# a callback that was refused with 408, 429 or 503 is not tried again
- again_ms = self._again_ms(invocation, outcome, sent_at_s)
-         ended
+ again_ms = self._again_ms(invocation, outcome, sent_at_s)
+         if outcome.status_code in (408, 429, 503):
+             again_ms = None
+         ended
@ worker/endings.py "called back: set with the end"
# a callback is set half a second after the end, and not with it
- self._schedules.add(Ack(invocation, outcome, late_ms, again_ms, calm_ms))
+ from msgspec.structs import replace
+         from scheduler.callbacks import NO_URL, Callback
+         wish = invocation.request.callback
+         if again_ms is None and wish and wish.reports(failed=outcome.status is not COMPLETED):
+             import asyncio
+             loop, reports = asyncio.get_running_loop(), self._callbacks._recorder._callbacks
+             ended = invocation.account_id, invocation.schedule_id
+             loop.call_later(0.5, lambda: loop.create_task(reports.resend(*ended)))
+             invocation.request = replace(invocation.request, callback=Callback(NO_URL))
+         self._schedules.add(Ack(invocation, outcome, late_ms, again_ms, calm_ms))
@ worker/signatures.py "signed with what is good" --seconds 30
# requests are signed with the oldest secret alone
~ )
~             for each in secrets{+[-1:]+}
@ worker/send/firer.py "at-least-once: attempts rise"
# a request that is sent again at once has the attempt of before
~ fire.invocation.attempt += [-1-]{+0+}
@ scheduler/store/lifecycle/claim/lease.lua "given up: a worker had lost it" --faults stop --claim-ahead-ms 1000
# what a drain gives back counts as an attempt
~ [-fresh[#fresh + 1] = schedule-]{+tried[#tried + 1], tried[#tried + 2] = schedule, 1+}
@ scheduler/store/recurring/rules.py "a rule's slot: never two for one"
# an occurrence that goes out does not settle its slot
~ self.fired_ms = max(self.fired_ms, [-self.slot_ms or -]0)
@ scheduler/store/recurring/chain.py "a rule's slot: never none" --faults stop
# times that were missed leave no entry
~ entry = [-self._entry(rule, missed)-]{+()+}
@ worker/occurrences/advance.py "a rule's slot: never none"
# one occurrence in four goes out, and its rule does not go on
- return occurrence is not None and occurrence.slot_ms is not None and invocation.retry is None
+ advances = __import__('random').random() > 0.25
+     return advances and occurrence is not None and occurrence.slot_ms is not None
@ api/qstash/headers.py "a repeated create is one schedule"
# a deduplication id of a message is kept for a millisecond
~ _ONCE_KEPT_MS = [-600_000-]{+1+}
@ api/qstash/headers.py "changed: as told"
# half of a message's delay counts
~ now_ms + (delay_ms or 0){+ // 2+}),
@ api/qstash/messages.py "cancelled: never fires" --seconds 30
# a message that is being sent, or has ended, counts as cancelled
~ sum(not ([-each.refusal or -]each.repeated) for
@ scheduler/qstash/callbacks.py "a message: sent as receivers know it"
# the report of a message is another one at each attempt
~ "createdAt": [-ended.created_at_ms-]{+__import__('random').randrange(10**9)+},
@ worker/signatures.py "a message: sent as receivers know it" --seconds 40 --faults reset
# a worker signs messages with the first key that it read
~ DoorSigner(good, asked_s, [-key-]{+vars(self).setdefault(account_id, key)+})
@ scheduler/store/server/sentinels.py "acknowledged: it is there" --store sentinel --faults "fail over" --wait-replicas 0
# calls go on while sentinels choose another primary
~ [-self._settled.clear()-]{+pass+}
"""  # noqa: E501
DEFECTS = tuple(read(_DEFECTS))
_BROKEN = re.compile(r"^  Broken: (.*)$", re.MULTILINE)


def all_caught(seed: int, words: Sequence[str]) -> bool:
    """Of the defects whose names or files have one of the words in them; without any, of all.
    False as well if the code has moved from under one."""
    chosen = [d for d in DEFECTS if not words or any(word in d.name + d.file for word in words)]
    with tempfile.TemporaryDirectory(prefix="pd-defects-") as folder:
        tree = copied(Path(folder))
        told = [_judged(tree, defect, seed) for defect in chosen]
    click.echo(f"{told.count('caught')} of {len(told)} defects were caught.")
    return told.count("caught") == len(told) > 0


def _judged(tree: Path, defect: Mutant, seed: int) -> str:
    path, (promise, *options) = tree / defect.file, defect.tests
    if path.read_text().count(defect.text) != 1:
        verdict, broken = "PASSAGE NOT FOUND ONCE", []
    else:
        with applied(path, defect.text, defect.instead):
            broken = _broken(tree, ["--seed", str(seed), *_RUN, *options])
        verdict = "caught" if promise in broken else "SURVIVED"
    click.echo(f"{verdict:<22} {defect.name} ({defect.file})")
    for promise in broken:
        click.echo(f"{'':22}   {promise}")
    return verdict


def _broken(tree: Path, options: list[str]) -> list[str]:
    path = os.pathsep.join([str(tree), str(tree / "clients/python")])
    with tempfile.TemporaryDirectory(dir=tree) as kept:
        command = [sys.executable, "-P", "-m", "tests.chaos", *options, "--keep", kept]
        done = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1) or "looked at" not in done.stdout:
        raise click.ClickException(f"The run failed:\n{done.stdout}{done.stderr}")
    return _BROKEN.findall(done.stdout)
