"""Mutants of the worker, as mutants.py reads them."""

WORKER = r"""
@ worker/acks.py tests/worker/test_acks.py
# a refused batch is dropped whole
~ if [-len(batch) > 1-]{+False+}:
# an unforeseen exception ends the sender
~ except [-Exception-]{+ZeroDivisionError+} as error:
# an unforeseen exception is repeated for ever
~ if [-stumbles > _STUMBLES-]{+False+}:
# batches of any weight
~ if [-left < 0-]{+False+}:
# a shard that fails among several is not tried again
~ if [-failure is None-]{+True+}:
# leases that are being prolonged hold up the outcomes of other shards
~ if weight > _MOST_BYTES[- or self._holdings.asking[shard].locked()-]:
# outcomes of any number of shards share a call
~ if weight > room[- or len(group) == self._recorder.most_shards-]:
# any number of outcomes share a call
~ if [-weight > room or -]len(group) == self._recorder.most_shards:
# an ack that the store did not take does not lose touch
~ [-self._touch.lose([shard], error)-]{+pass+}
# outcomes that a full lane waits for wait for the tick
~ elif [-shard in self._urgent-]{+False+}:
# each urgent outcome has a call of its own
~ [-self._urgent_from_s = asyncio.get_running_loop().time() + _URGENT_EVERY_S-]{+pass+}
# a place of a lane that came free is not claimed for
~ [-self._soon.note_place(freed)-]{+pass+}
@ worker/acks.py tests/worker/whole/test_worker.py -k settled
# an outcome is recorded while its lease is being prolonged
- async with self._holdings.asking[shard]:
+ if True:
# outcomes of several shards are recorded while their leases are being prolonged
~ [-await asking.enter_async_context(self._holdings.asking[shard])-]{+pass+}
@ worker/acks.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# acked: a piece is dropped
- del self._waiting[shard][:count]
+ del self._waiting[shard][: count + 1]
@ worker/leases.py tests/worker/test_leases.py
# a clock that was set back is mended at once
~ self._mend_at_s = elapsed_s()[- + self._lease_ms / 1000-]
# no grace after the store's start
~ [-max(0, lease_ms - max(0, store_uptime_ms))-]{+0+}
# no grace for a shard that is back
- self._grace_until_s[shard] = elapsed_s() + self._lease_s
# leases of a shard are prolonged by several calls at a time
- async with self._holdings.asking[shard]:
-             for start in
+ if True:
+             for start in
@ worker/leases.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# extended: a piece is dropped
~ for start in range(0, [-len(invocations)-]{+max(1, len(invocations) - 1)+}, _MOST_AT_ONCE):
# put_off: a piece is dropped
- del invocations[:_MOST_AT_ONCE]
+ invocations.clear()
@ worker/worker.py tests/worker/whole/test_worker.py -k stores_start
# the store's uptime is not asked
~ [-1000 * store.uptime_s-]{+settings.lease_ms+}
@ worker/worker.py tests/worker/whole/test_worker.py -k away
# no extension before claiming again
~ [-await self.pipeline.leases.extend(shard)-]{+pass+}
# no ack before claiming again
- await self.pipeline.endings.settle(shard, _ACKS_FIRST_S)
@ worker/unsure.py tests/worker/whole/test_worker.py
# what another has by now is fired
~ gone{+: set[Invocation]+} = set([-lost-])
# a confirmation that failed is forgotten
- self._waiting.setdefault(shard, []).extend(unsure)
@ worker/pipeline.py tests/worker/whole/test_worker.py
# what is unsure is fired by a worker that drains
~ if [-self.is_closed-]{+False+}:
~             await self._give_back(invocations)
# a shard that is away keeps the others from being given back
~ [-_log.warning("not given back; the leases will end", error=str(error))-]{+raise+}
@ worker/pipeline.py tests/worker/occurrences/test_advance.py
# an occurrence is sent before its rule has advanced
- ordinary = [each for each in batch.invocations if each.request.recurring is None]
+ ordinary = batch.invocations
# an occurrence whose rule did not advance is sent once its lease is confirmed
- await self.occurrences.advance(await self.signatures.read_for(ours))
+ await self.signatures.read_for(ours)
@ worker/pipeline.py tests/worker/whole/test_worker.py
# one whose lease is confirmed before it is due is sent early
~ [-await self._time(ours, reading)  # some may be not due yet-]{+self._batch.fire(ours)+}
@ worker/traces.py tests/worker/test_traces.py
# each occurrence of a sampled create is traced, for years
~ request.trace is not None[- and request.recurring is None-]
@ worker/occurrences/advance.py tests/worker/occurrences/test_advance.py
# one that cannot advance is put off and sent all the same
~ self._unreadables.put([UnreadClaim(some[0], why, "")])
~             return [-{*some}-]{+set()+}
# after an error the pieces that are left are sent
- held_back |= {*waiting[start:]}
+ held_back |= {*some}
# one that the store did not answer for is sent
~ [-held_back |= {*waiting[start:]}-]{+pass+}
# one that the store did not answer for is forgotten
- held_back |= {*waiting[start:]}
-                 for each in waiting[start:]:
-                     self._unsure.put(each)
+ held_back |= {*waiting[start:]}
# those that met an unforeseen fault are forgotten
- for each in readings:
-                 self._unsure.put(each)
+ pass
# what `trigger` made asks for its rule
~ [-occurrence.slot_ms is not None and -]invocation.retry is None
# a retry asks for its rule
~ occurrence.slot_ms is not None[- and invocation.retry is None-]
# late occurrences of an account hold up those of others
~ is_late = [-slot_ms is not None and slot_ms + _LATE_MS <= now_ms-]{+False+}
# late occurrences of all accounts advance at once
~ async with [-self._late[group[0]] if is_late else -]nullcontext():
# a slow node of a cluster holds up the others
~ shard = [-invocation.shard if self._store.server.routed else -]-1
# a worker that drains advances all that waits for its turn
~ [-queue.clear()-]{+pass+}
# an account's many fill a worker
~ if [-count > share-]{+False+}
# what fails in one shard is asked for one by one in the others
- return [*by_shard.values()] if len(by_shard) > 1 else [[each] for each in invocations]
+ return [[each] for each in invocations]
# a rule that fails holds up the others of its call
~ if [-len(some) > 1-]{+False+}:
# a rule that fails loses touch with the store
~ isinstance(error, StoreError)[- and not isinstance(error, StoreRefused)-]
@ worker/occurrences/tending.py tests/worker/occurrences/test_tending.py
# a flood of one shard leaves no turn to the others
~ [-for _ in range(_MOST_CALLS)-]{+while True+}:
# a shard that is away leaves no turn to the others
~ [-self._touch.lose([shard], error)-]{+raise+}
# the rules of other workers' shards are tended
~ own = [-sorted(self._presence.shards - self._touch.lost)-]{+[0, 1, 2]+}
@ worker/pipeline.py tests/worker/whole/test_expiry.py
# what has expired is sent if it had not when it was claimed
~ unsent=[-self._unsent-]{+lambda _: None+},
# what was not sent counts as an attempt
~ [-invocation.attempt -= 1  # the one that is not made-]{+pass+}
@ worker/claimer.py tests/worker/test_claimer.py
# a claim that fails keeps its room
- self._holdings.give_back(part)
+ if batches:
+                     self._holdings.give_back(part)
# each claim of a shard on hold beside others is logged
~ if [-before != bool(self._on_hold)-]{+True+}:
# a claim in grace takes over
~ [-0 if self._touch.has_grace(shard) else -]self._store.clock.now_ms()
# after a pause a worker takes over from itself
- self._notice_pause()
# a claim begins after a drain has counted those on their way
- if self._stopping:
-             return
-         for
+ for
# floods are not kept from filling a worker
- pass_over=[*{*self._holdings.crowding(), *self._taker.crowding()}],
+ pass_over=self._taker.crowding(),
# what would miss its slots is claimed all the same
- pass_over=[*{*self._holdings.crowding(), *self._taker.crowding()}],
+ pass_over=self._holdings.crowding(),
# what is not late is claimed from the shards of others
~ ahead_ms = self._ahead_ms[- if own else -_LATE_MS-]
# claims of any number of shards share a call
- shards = [shard for _, shard in due[start : start + self._store.claims.most_shards]]
+ shards = [shard for _, shard in due]
# a lost worker's lane with a rate starts one schedule a look
~ [-self._adopted.setdefault(shard, _own_ms() + _ADOPTED_MS)-]{+pass+}
# a lost worker's lane is looked after for good
- {each: ms for each, ms in self._adopted.items() if ms > own_ms}
+ {each: ms for each, ms in self._adopted.items()}
# a place that comes free is claimed for at the next look
~ for shard in [-self._soon.shards - self._claims.keys-]():
# another worker's shard is claimed from only where it is late, though a place came free there
~ shard in self._backlogged[- | self._soon.shards-]
# nobody helps with a backlog
~ [-self._backlogged.add(shard)-]{+pass+}
# help never ends
- self._backlogged.discard(shard)
# a slow store is not lost
- found = dict.fromkeys(found, slow)
@ worker/loop_budget.py tests/worker/send/test_wire_bytes.py
# answers are parsed without a ration
~ if [-(self._waiting and not self._is_serving) or self._left <= 0-]{+False+}:
@ worker/loop_budget.py tests/worker/whole/test_volley.py
# what is due goes out in one round
~ while waiting[- and time.monotonic() < until_s-]:
# callbacks that came together go out in one round
~ [-max(1, (waiting.turns - before) // 10)-]{+64+}
@ worker/send/handshakes.py tests/worker/send/test_handshakes.py
# the weight of a handshake that fails stays
- self.give_back(account_id, weight)
-             if steps is not None:
+ if steps is not None:
# a target that speaks before it is spoken to is believed
~ if [-early.was_called or -]secured.is_closing():
# all handshakes step at once
~ _STEPS_IN_A_ROUND = [-4-]{+4000+}
# a large certificate is read
~ if [-received > MAX_HANDSHAKE_BYTES-]{+False+}:
# large certificates are kept without bound
~ while [-not self._unusual.take(account_id, weight)-]{+False+}:
@ worker/worker.py tests/worker/test_rings.py
# buffers of TLS connections stay in the heap
- map_large_blocks()
-     traces =
+ traces =
@ worker/send/handshakes.py tests/worker/test_rings.py
# a handshake that failed is left to the collector
~ [-steps = None-]{+pass+}  # what
# a handshake that was reset is watched
~ if [-transport.is_closing()-]{+False+}:  # it has no socket
@ scheduler/stages.py tests/worker/whole/test_worker.py
# a drain leaves what lies in the wheel
~ UNSENT = frozenset({Stage.[-TIMED, Stage.-]QUEUED
@ worker/holdings.py tests/worker/test_claimer.py
# claims bring what weighs too much
~ self.slots.free <= self._reserved[- or self.bytes.free <= self._reserved_bytes-]
# claims that share a call bring what as many calls may
~ most, most_bytes = _MOST_A_CALL[- // together-], _MOST_BYTES[- // together-]
@ worker/send/answer.py tests/worker/send/test_answer.py
# the kept part of an answer ends within a character
~ body = [-cut(-]reader.body_of(received, keep_bytes)[-, keep_bytes)-]{+[:keep_bytes]+}
@ worker/send/wire.py tests/worker/send/test_response.py
# a report lacks an answer that is well known
- self._known = b""  # the answer is read, however well known
+ pass
# what was given up counts as whole
~ is_cut = False, [-is_cut-]{+False+}
@ worker/holdings.py tests/worker/test_holdings.py
# answers for reports take no room before they come
~ [-self._response_bytes if is_asked else -]0
@ worker/send/answer_reader.py tests/worker/test_rings.py
# a wire that never connected has a parser
~ self._parser = [-NO_PARSER-]{+httptools.HttpResponseParser(self)+}
@ worker/send/addresses/happy_eyeballs.py tests/worker/send/addresses/test_happy_eyeballs.py
# a failed handshake waits for an address that hangs
~ return bool(self._waiting)[- or any(map(is_of_tls, self._faults))-]
@ worker/send/fire.py tests/worker/send/test_firer.py -k two_addresses
# an address that refuses is forgotten for one that hangs
~ if [-tells_more_than_timeout(fault)-]{+False+}:
@ worker/send/handshakes.py tests/worker/send/test_firer.py -k speak_tls
# a target that speaks first is waited for
~ if [-before.was_called-]{+False+}:
@ worker/send/answer_reader.py tests/worker/send/test_loose_http.py
# a status below 100 is one
- if status < 100:
-                 raise Enough
-             return
+ return
@ worker/send/loose_http.py tests/worker/send/test_loose_http.py
# a connection with a loose head is used again
- b"Connection: close",
# a second status is passed over
~ if [-_ANOTHER_STATUS.search(head.lines)-]{+False+}:
# lengths may contradict each other
~ if [-len(different) > 1-]{+False+}:
# the end of a 1xx is taken for that of the answer
~ received.begin[- =-]{+,+} received.seen = head.end{+, len(begun)+}
# any number of 1xx is read
~ if [-received.skipped > MAX_INTERIMS-]{+False+}:
@ worker/send/answer.py tests/worker/send/test_loose_http.py
# a connection on which a body may come behind a 204 is used again
~ received.extra = received.extra or [-announced or -]len(data) > end
# a chunk of zeros is taken for the last one
~ return [-size is None or int(size, 16) != len(zeros)-]{+True+}
@ worker/send/wire.py tests/worker/send/test_loose_http.py
# a connection whose body was given up is used again
- self.received.keep_alive, self.received.is_cut = False, is_cut
+ self.received.is_cut = is_cut
# a target with a loose answer is left to close first
-  or received.odd
-         )
+ )
# a body that breaks off takes the status with it
~ elif received.headers_done{+ and not received.framed+}:
@ worker/send/firer.py tests/worker/send/test_loose_http.py
# the status of a loose answer is lost at the time limit
~ if [-wire is not None and wire.end_as_heard()-]{+False+}:
@ worker/send/wire.py tests/worker/send/test_wire_bytes.py
# a wire with an unsent rest is used again
- self._rest is None
-             and self._transport
+ self._transport
# a wire with a full buffer is used again
- and self._transport.get_write_buffer_size() == 0
# a wire with a full buffer below TLS is used again
- and (self.below is None or self.below.get_write_buffer_size() == 0)
# a wire whose answer began before the request was out is used again
~ Received([-was_early=not self.has_sent_all-])
# a known answer is taken for one to a request that is still going out
~ and not self._is_to_head[- and self.has_sent_all-]:
# the middle of an answer is taken for a known one
~ if [-is_new and -]data == self._known and
@ worker/send/addresses/resolver.py tests/worker/send/addresses/test_resolver.py
# c-ares keeps answers without end
- self._look_ups += 1
# a resolver that is replaced while idle stays open
- if replaced is not None:
-             await self._close_if_replaced(replaced)
# answers of any length are asked for
~ _FLAGS = pycares.ARES_FLAG_EDNS[- | pycares.ARES_FLAG_IGNTC-]
@ worker/send/addresses/guard.py tests/worker/send/addresses/test_guard.py
# one account's names push out all others
~ self._forget(next(iter([-own or -]self._answers)))
# an address of this machine is gone to
~ return [-Failure.NOT_ALLOWED if is_inside else -]chosen
# what cannot be asked for is taken for another's
- except OSError:  # the system could not say whose it is
-             return Failure.UNRESOLVED
+ except OSError:
+             is_inside = False
# a resolver that stumbles takes an answer back
- if found is Failure.UNRESOLVED and old and now < old.usable_until_s:
+ if False and old is not None:
@ worker/send/firer.py tests/worker/whole/test_unsure.py
# a lease that may have ended is sent
~ [- or elapsed_s() > invocation.lease_until_s - _LEASE_MARGIN_S-]:
# a lease that ends before its request arrives is sent
~ _LEASE_MARGIN_S = 0.[-25-]{+0+}
# what was sent once is postponed
~ if [-not self._ends_as_sent(fire)-]{+True+}:
~             fire.done = None
@ worker/send/firer.py tests/worker/whole/test_expiry.py
# what was sent once and expired is told as unsent
- if not self._ends_as_sent(fire):
-                 self._end(fire, refusal)
+ self._end(fire, refusal)
@ worker/send/room.py tests/worker/send/test_ceiling.py -k idle
# an account keeps idle connections that another one lacks
~ [-self._loop.call_later(PATIENCE_S, make)-]{+pass+}
@ worker/send/firer.py tests/worker/send/test_closing.py
# the wait for a local port is charged
- self._deadlines.discard(fire)
-         fire.invocation.enter(_QUEUED)
-         origin = fire.target.origin
+ origin = fire.target.origin
@ worker/send/room.py tests/worker/send/test_closing.py
# a target that says so is not left to close first
~ if [-wire.closes_first and not is_wanted-]{+False+}:
@ worker/send/firer.py tests/faults/test_worker_frozen.py -k another
# a frozen worker sends what another has taken over
~ signed is None[- or elapsed_s() > invocation.lease_until_s - _LEASE_MARGIN_S-]
@ worker/fair_share.py tests/worker/test_holdings.py tests/worker/test_claimer.py
# nobody crowds
~ SHARE_OF_FREE = [-4-]{+10**6+}
@ worker/presence.py tests/worker/test_presence.py
# who lacks a key keeps its shards
~ self.yields = [-lacks and bool(able)-]{+False+}
# the dead keep their shards
~ preferred_shards(self._worker_id, [-others-]{+[]+}, count)
# shards that were added are nobody's
~ [-await -]self._store.shards.[-newest()-]{+count+}
@ worker/send/outcome.py tests/worker/send/test_outcome.py
# expired at its very millisecond
~ now_ms [->-]{+>=+} request.expires_at_ms
# what a lost worker may have sent expires as unsent
~ if lost and ([-expired or -]given_up or
@ worker/send/firer.py tests/worker/send/test_firer.py
# a customer learns which names there are inside
~ if {+not +}self._conceals and failure in
@ worker/signatures.py tests/worker/test_signatures.py
# a secret that has ended signs on within its second
~ if seconds != self._seconds[- or moment_ms >= self._until_ms-]:
@ worker/signatures.py tests/store/whole/test_long_walks.py -k '{walk} and not redis'
# signed: a piece is dropped
~ for start in range(0, len(account_ids){+ - _MOST_AT_ONCE+}, _MOST_AT_ONCE):
# signed: a piece is doubled
~ await self.read(account_ids[start[- : start + _MOST_AT_ONCE-]{+:+}])
@ worker/send/pool.py tests/worker/send/test_pool.py
# a dead connection is used again
- if not wire.is_open:
-                     continue
@ worker/send/pool.py tests/worker/send/test_hasty_targets.py
# a kept connection is used by another account
- wires = routes.get((address, account_id))
+ wires = next((w for (a, _), w in routes.items() if a == address), None)
@ worker/send/pool.py tests/worker/whole/test_suspended.py
# a connection from before the machine slept is used again
~ if [-elapsed_s() - wire.idle_since_s < _STALE_S-]{+True+}:
@ worker/send/origin_queue.py tests/worker/send/test_hasty_targets.py
# a connection that came free is given to another account in line
~ [-part = self._parts.get(account_id)-]{+account_id, part = next(iter(self._parts.items()))+}
~         if [-part is None or -](entry := part.pop_to_reuse()) is None:
@ worker/send/origin_queue.py tests/worker/send/test_ceiling.py -k neighbour
# an account keeps all connections for as long as it has use for them
~ return [-is_more and self.is_urgent(now_s, has_place=False)-]{+False+}
@ worker/send/origin_queue.py tests/worker/send/test_connection_slots.py
# at most once in line gets a used connection
~ kinds = self.[-_fresh if entry.needs_fresh else self.-]_any
~         kind = kinds.get
# a fire without hope is given another time limit
~ since_s = now_s - [-limit_ms / 1000-]{+30+}
@ worker/send/fire.py tests/worker/send/test_ceiling.py -k at_most_once
# at most once in line gets a used connection, and is sent again when that dies
~ return self.resent[- or self.invocation.request.delivery is AT_MOST_ONCE-]
@ worker/send/firer.py tests/worker/send/test_wire.py -k replaced
# an attempt is sent before it is told
~ self.[-_resent(fire.invocation)-]{+_get_wire(fire)+}
~             self.[-_get_wire(fire)-]{+_resent(fire.invocation)+}
@ worker/send/connector.py tests/worker/send/test_closing.py
# a shortage of local ports is the target's failure
~ return [-OutOfPorts if is_out_of_ports(error, route.address, route.origin.port) else -]None
# an address without a local port is tried again at once
~ if [-self._loop.time() < until_s-]{+False+}:
@ worker/send/sockets.py tests/worker/send/test_closing.py
# a connection that a worker closes keeps its local port
~ [-opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)-]{+pass+}
@ worker/occurrences/unreadable.py tests/worker/occurrences/test_unreadable.py
# a cause is never over
~ return [-now_s - self.met_s > _OVER_AFTER_S-]{+False+}
@ worker/send/connection_slots.py tests/isolation
# a worker remembers every origin for good
- del self._queues[origin]
+ pass
@ worker/send/firer.py tests/worker/send/test_firer.py -k limit
# a schedule's own time limit does not count
~ limit_ms = [-min(1000 * invocation.request.timeout_s, self._limit_ms)-]{+self._limit_ms+}
@ worker/send/deadlines.py tests/worker/send/test_deadlines.py
# a pause is charged to what was not sent
~ if [-not entry.is_sent-]{+False+}:
# what came during a pause is not read first
~ _READ_FIRST_S = [-0.1-]{+-1.0+}
@ worker/send/deadlines.py tests/faults/test_worker_frozen.py -k alone
# a frozen worker times out what it had not sent
~ _PAUSE_S = [-1.0-]{+1e6+}
@ worker/timer_wheel.py tests/worker/test_timer_wheel.py
# slots of a claim are taken in the order of its schedules
- slotted.sort(key=attrgetter("starts_at_us"))
# the wheel believes a clock from before its claim
~ ahead_us = self._clock.offset_since_us([-reading-]{+0+})
# a slot is not waited for
~ if [-each.slot_us is not None-]{+False+}:
# a slot before its schedule is due is taken
~ [-self.invocations[0].starts_at_us-]{+(self.invocations[0].slot_us or 0)+} <= server_us:
@ worker/lane_starts.py tests/worker/whole/test_lane_starts.py
# a slot that has passed is used
~ if [-not slack_us or self._clock.now_us() <= invocation.starts_at_us + slack_us-]{+True+}:
# what missed its slot and cannot be given back is forgotten
~ [-self._unsure.put(each)-]{+pass+}
# starts that would come too late are claimed in vain
~ if [-len(waiting) <= _MOST_RATED-]{+True+}:
# what was given back waits for the next look
- self._soon.note_place(shard)
@ worker/pipeline.py tests/worker/whole/test_lane_starts.py
# what has no place in its lane is sent by a clock that is behind
~ [-now_ms = max(now_ms, invocation.slot_us // 1000)-]{+pass+}
@ worker/endings.py tests/worker/whole/test_lane_starts.py
# lateness in a lane counts from when it was due
~ invocation.due_at_ms * 1000[- if is_due else invocation.starts_at_us-]
# no lane is calmed
~ [-calm_ms = calm_until_ms(outcome, self._clock.now_ms())-]{+pass+}
@ worker/endings.py tests/worker/whole/test_callbacks.py
# an outcome of a callback is recorded as its schedule's
~ self.[-_callbacks-]{+_schedules+}.add(Ack(invocation, outcome, None, again_ms))
# a callback that failed is not retried
~ self._callbacks.add(Ack(invocation, outcome, None[-, again_ms-]))
# callbacks count as fires
- if invocation.is_callback:
+ self.tally.note(invocation, outcome, 0)
+         if invocation.is_callback:
# a shard that is back is claimed from before its callbacks are recorded
~ for acks in (self._schedules,[- self._callbacks-]):
@ worker/signatures.py tests/worker/whole/test_callbacks.py
# a callback has the id of its invocation
~ b"[-cbk_" if invocation.is_callback else b"-]inv_"
@ worker/send/request.py tests/worker/whole/test_callbacks.py
# a callback names the invocation in its head
~ if [-is_callback-]{+False+}:
@ worker/send/outcome.py tests/worker/whole/test_lane_starts.py
# a target calms a lane for a day
~ [-min(_asked_ms(outcome, now_ms), LONGEST_CALM_MS)-]{+_asked_ms(outcome, now_ms)+}
@ scheduler/store/lifecycle/claim/claimed.py tests/store/lanes/test_lanes.py
# a worker uses all of a lane's slack
~ slack_us [-* 3 // 4 -]+ max
# a slot that has passed counts from itself
- + max(0, now_us - slot_us)
@ worker/start_queue.py tests/worker/whole/test_volley.py
# a rate waits for every account of a crowd
~ account_id = next(iter(self.[-_next or self.-]_queues))
# an account with a rate has every turn
~ if [-self.turns >= self._again.get(account_id, 0)-]{+True+}:
@ worker/loop_budget.py tests/worker/whole/test_volley.py
# a rate waits for all others of its account
~ if [-each.slack_us-]{+False+}:
@ worker/send/outcome.py tests/worker/test_retries.py
# a 5xx is the last word
~ return code in _RETRIED[- or 500 <= code < 600-]
# at most once is retried after it was sent
~ return [-not sent or request.delivery is not Delivery.AT_MOST_ONCE-]{+True+}
# an attempt is made after its expiresAt
~ at_ms [-> request.expires_at_ms-]{+< 0+}:
# a target may ask to wait for years
~ return [-min(int(retry_after) * 1000, LONGEST_ASKED_MS)-]{+int(retry_after) * 1000+}
"""
