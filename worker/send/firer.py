"""The firer: a claimed invocation goes out, its outcome comes back.

Over a kept connection to a known address it creates no task and no future.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

import structlog

from scheduler.models import Invocation, Outcome
from scheduler.runtime.elapsed import elapsed_s
from scheduler.runtime.settings import Settings
from scheduler.stages import Stage
from scheduler.target.targets import DestinationNotAllowed, Origin, parse_target
from worker.holdings import subject
from worker.send.addresses.guard import Guard, Resolve
from worker.send.addresses.happy_eyeballs import OutOfPorts, OutOfSockets
from worker.send.addresses.resolver import SystemResolver
from worker.send.connection_slots import ConnectionSlots
from worker.send.connector import PORTS_PAUSE_S, Connector
from worker.send.deadlines import Deadlines
from worker.send.fire import NOT_SENT, SLOW_MS, Done, Fire, Marks, report, responded
from worker.send.outcome import ConnectFailed, Failure, answered, failed, timed_out
from worker.send.pool import Pool
from worker.send.request import AT_MOST_ONCE, render
from worker.send.room import RoomMaker
from worker.send.wire import Wire, WireEvents

# A lease counts as ended so long before it does, for the time that a request takes to arrive.
_LEASE_MARGIN_S = 0.25
# An enum's member takes a tenth of a microsecond to look up.
_QUEUED, _CONNECTING, _SENT = Stage.QUEUED, Stage.CONNECTING, Stage.SENT
_log = structlog.get_logger(__name__)


class Firer:
    """Fires invocations, up to as many at once as its caller asks for.

    To be made inside a running loop. What may be reached, and the limits, come from the settings.
    Right before the first byte it asks `unsent` for None, or the outcome to end with instead; and
    `sign` for whole header lines, or None if it cannot be signed by now. Then, and if the lease may
    have ended by that moment, nothing is sent and `unsure` is called in place of `done`. `resent`
    is called when a second attempt was used up that the store has not heard of. `resolve` and
    `ssl_context` are for tests.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        sign: Callable[[Invocation], bytes | None],
        unsent: Callable[[Invocation], Outcome | None],
        resent: Callable[[Invocation], None],
        unsure: Callable[[Invocation], None],
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._limit_ms = settings.fire_timeout_ms
        self._response_bytes = settings.callback_body_bytes
        self._slots = ConnectionSlots(settings.max_connections_per_origin)
        self.pool = Pool(self.loop)
        self.connector = Connector(
            self.loop,
            self.pool,
            settings,
            ssl_context,
            WireEvents(self._answered, self._broke, self.pool.forget),
            opened=self._slots.opened,
            closed=self._on_closed,
        )
        self._room = RoomMaker(self.loop, self._slots, self.pool)
        self._resolver = SystemResolver()
        self._guard = Guard(self.loop, settings.destinations, resolve or self._resolver)
        self._conceals = settings.destination_errors != "exact"
        self._sign = sign
        self._unsent = unsent
        self._resent = resent
        self._unsure = unsure
        self._deadlines = Deadlines(self.loop, self._expire)

    @property
    def in_flight(self) -> int:
        """Fires whose `done` has not been called yet."""
        return len(self._deadlines) + self._slots.unbegun

    def fire(self, invocation: Invocation, done: Done) -> None:
        """Send the invocation's request; `done` is called once with the outcome.

        Possibly before this returns. Raises `invocation.attempt` if the request had to go out a
        second time. Raises no exceptions: a failure is an outcome.
        """
        now_s = time.monotonic()
        try:
            target = parse_target(invocation.request.url)
        except DestinationNotAllowed:
            report(done, invocation, self._failed(Failure.NOT_ALLOWED))
        except ValueError:  # it passed at POST, under rules that have changed since
            report(done, invocation, failed(Failure.BAD_REQUEST))
        except Exception:
            _log.exception("Internal error", **subject(invocation))
            report(done, invocation, failed(Failure.INTERNAL))
        else:
            limit_ms = min(1000 * invocation.request.timeout_s, self._limit_ms)
            deadline_s = now_s + limit_ms / 1000
            fire = Fire(invocation, target, done, limit_ms, now_s, deadline_s)
            wish = invocation.request.callback
            if wish is not None and wish.with_response:
                fire.response_bytes = self._response_bytes
            self._deadlines.add(fire)
            try:
                self._start(fire)
            except Exception:
                self._fail_internally(fire)

    def give_up_unbegun(self) -> None:
        """Gives up the queued fires that have not begun. Their `done` is never called."""
        for fire in self._slots.pop_unbegun():
            fire.done = None

    async def aclose(self) -> None:
        """Close all connections. Fires in flight are cut off, their `done` is never called, and
        their leases run out; the next claim knows that they may have been sent."""
        self._slots.clear()
        for fire in self._deadlines.clear():
            fire.done = None
            self._let_go(fire)
        self._guard.close()
        await self._resolver.aclose()
        self.pool.close()
        self.connector.handshakes.close()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    def _get_wire(self, fire: Fire) -> None:
        """The cold path: resolve if need be, then a new connection, or one that comes free.

        The time limit begins when the fire leaves the queue; a resent one keeps its first limit.
        """
        origin = fire.target.origin
        if self._slots.admit(origin, fire):
            self._take_steps(fire)
            return
        if not fire.resent:
            fire.invocation.enter(_QUEUED)
            self._deadlines.discard(fire)
        self._room.make(origin)

    def _free(self, wire: Wire) -> None:
        """A connection is ready for another exchange."""
        if not self._slots.queued:
            self.pool.keep(wire)
            return
        origin, account_id = wire.route.origin, wire.route.account_id
        if self._slots.is_due(origin, account_id, wire.opened_s):
            wire.abort()
            self._slots.makes_room(origin)
            return
        waiting = self._slots.next_to_reuse(origin, account_id)
        if waiting is not None:
            self._begin(waiting)
            try:
                self._send(waiting, wire)
            except Exception:
                self._fail_internally(waiting)
        else:
            self.pool.keep(wire)
            self._room.make(origin)

    def _end(self, fire: Fire, outcome: Outcome) -> None:
        done = fire.done
        if done is None:
            return
        fire.done = None
        self._deadlines.discard(fire)
        report(done, fire.invocation, outcome, fire.sent_at_s)

    def _failed(self, failure: Failure, response_time_ms: int = 0, detail: str = "") -> Outcome:
        """Hides internal host names, if the settings say so."""
        if self._conceals and failure in (Failure.UNRESOLVED, Failure.NOT_ALLOWED):
            failure = Failure.NO_DESTINATION
        return failed(failure, response_time_ms, detail)

    def _fail_internally(self, fire: Fire) -> None:
        """Ends this one fire for the unexpected exception that is being handled."""
        _log.exception("Internal error", **subject(fire.invocation))
        self._let_go(fire)
        self._end(fire, failed(Failure.INTERNAL, fire.elapsed_ms()))

    def _start(self, fire: Fire) -> None:
        target, wire = fire.target, None
        try:
            addresses = self._guard.known(target)
        except ConnectFailed as reason:
            self._end(fire, self._failed(reason.failure))
            return
        if addresses is not None and fire.invocation.request.delivery is not AT_MOST_ONCE:
            wire = self.pool.take(target.origin, addresses, fire.invocation.account_id)
        if wire is None:
            self._get_wire(fire)
        else:
            self._send(fire, wire)

    def _take_steps(self, fire: Fire) -> None:
        origin, account_id = fire.target.origin, fire.account_id
        fire.invocation.enter(_CONNECTING)
        fire.marks = Marks()
        fire.steps = self.loop.create_task(self._connect(fire))
        # Not a `finally` in there: a coroutine that is cancelled before its first step runs none.
        fire.steps.add_done_callback(lambda _: self._after_steps(origin, account_id))

    def _after_steps(self, origin: Origin, account_id: str) -> None:
        self._slots.ended(origin, account_id)
        self._advance(origin)

    def _on_closed(self, origin: Origin, account_id: str) -> None:
        self._slots.closed(origin, account_id)
        self._advance(origin)

    def _advance(self, origin: Origin) -> None:
        """Slots may be free: the next fires in the queue connect."""
        while (following := self._slots.next_to_open(origin)) is not None:
            if not following.resent:
                self._begin(following)
            self._take_steps(following)
        self._room.make(origin)

    def _begin(self, fire: Fire) -> None:
        """The fire leaves the queue, and its time begins. (So deadlines come in their order.)"""
        fire.started_s = time.monotonic()
        fire.deadline_s = fire.started_s + fire.limit_ms / 1000
        self._deadlines.add(fire)

    async def _connect(self, fire: Fire) -> None:
        target, account_id, marks = fire.target, fire.account_id, fire.marks or Marks()
        try:
            addresses = self._guard.known(target)
            if addresses is None:
                marks.resolve_s = time.monotonic()
                addresses = await self._guard.addresses(target, account_id)
            limit_s = fire.limit_ms / 1000
            wire = await self.connector.connect(
                target.origin, addresses, account_id, marks, limit_s
            )
            fire.steps = None
            marks.wait_s = time.monotonic()
            if wire.is_open:
                self._send(fire, wire)
            else:
                self._end(fire, fire.timed(failed(Failure.CLOSED_EARLY, fire.elapsed_ms())))
        except ConnectFailed as reason:
            outcome = self._failed(reason.failure, fire.elapsed_ms(), reason.detail)
            self._end(fire, fire.timed(outcome))
        except OutOfPorts:
            fire.steps = None
            self._wait_for_port(fire)
        except OutOfSockets:
            fire.steps = None
            self._put_off(fire)
        except Exception:
            fire.steps = None
            self._fail_internally(fire)

    def _send(self, fire: Fire, wire: Wire) -> None:
        fire.wire = wire
        invocation = fire.invocation
        request = invocation.request
        now_s = time.monotonic()
        signed = self._sign(invocation)
        if signed is None or elapsed_s() > invocation.lease_until_s - _LEASE_MARGIN_S:
            self._put_back(fire, wire)
            self._put_off(fire)
            return
        try:
            what = (invocation.schedule_id, invocation.attempt, signed, invocation.is_callback)
            data = render(fire.target, request, *what)
        except ValueError:
            self._let_go(fire)
            self._end(fire, failed(Failure.BAD_REQUEST))
            return
        refusal = self._unsent(invocation)
        if refusal is not None:
            self._put_back(fire, wire)
            if not self._ends_as_sent(fire):
                self._end(fire, refusal)
            return
        if fire.sent_at_s == NOT_SENT:
            fire.sent_at_s = now_s
        invocation.enter(_SENT)
        wire.send(fire, data, request.method == "HEAD")

    def _answered(
        self, fire: Fire, wire: Wire, status_code: int, reason: str, reusable: bool
    ) -> None:
        """The whole answer is here. The wire goes back before `done` fires anew."""
        fire.wire = None
        received = wire.received
        try:
            # At most once needs fresh connections: keeping its old ones would only pile them up.
            if reusable and fire.invocation.request.delivery is not AT_MOST_ONCE:
                self._free(wire)
            else:
                self._room.retire(wire)
            took_ms = fire.elapsed_ms()
            told = (received.retry_after, received.kept, received.odd)
            outcome = answered(status_code, reason, took_ms, *told)
            if fire.marks is not None or took_ms >= SLOW_MS or not 200 <= status_code < 300:
                outcome = fire.timed(outcome, received.heard_s, whole=True)
            if received.response is not None:
                outcome = responded(outcome, received)
            self._end(fire, outcome)
        except Exception:
            self._fail_internally(fire)

    def _broke(self, fire: Fire, wire: Wire, failure: Failure, silent: bool) -> None:
        """No answer will come. A kept connection that dies without one byte of it was most likely
        closed while idle, so the request is sent once more, as the next attempt."""
        fire.wire = None
        if silent and wire.exchanges > 1 and not fire.needs_fresh:
            fire.resent = True
            fire.marks = Marks()  # what comes next goes over none that was there
            fire.invocation.attempt += 1
            self._resent(fire.invocation)
            self._get_wire(fire)
        else:
            outcome = failed(failure, fire.elapsed_ms(), wire.received.odd)
            self._end(fire, fire.timed(outcome, wire.received.heard_s))

    def _put_off(self, fire: Fire) -> None:
        """Its lease may have ended, it cannot be signed, or this process has no socket: that is no
        outcome, and it is fired again if its lease is still ours."""
        if not self._ends_as_sent(fire):
            fire.done = None
            self._deadlines.discard(fire)
            self._unsure(fire.invocation)

    def _wait_for_port(self, fire: Fire) -> None:
        """This host has no local port for it: the fire waits in the queue, as all do for this
        origin, and is not charged for it."""
        if self._ends_as_sent(fire):
            return
        self._deadlines.discard(fire)
        fire.invocation.enter(_QUEUED)
        origin = fire.target.origin
        if self._slots.hold(origin, fire):
            self.loop.call_later(PORTS_PAUSE_S, self._release, origin)

    def _ends_as_sent(self, fire: Fire) -> bool:
        """Ends a fire whose first attempt was sent, and lost: its second one is not made."""
        if fire.resent:
            self._end(fire, failed(Failure.CLOSED_EARLY, fire.elapsed_ms()))
        return fire.resent

    def _release(self, origin: Origin) -> None:
        self._slots.release(origin)
        self._advance(origin)

    def _put_back(self, fire: Fire, wire: Wire) -> None:
        """The connection is not used after all."""
        fire.wire = None
        if wire.exchanges:
            # Not at once: a long queue of cancelled fires would nest as deep as it is long.
            self.loop.call_soon(self._pass_on, wire)
        else:
            wire.abort()

    def _pass_on(self, wire: Wire) -> None:
        if wire.is_open:
            self._free(wire)

    def _expire(self, fire: Fire) -> None:
        wire, connecting = fire.wire, fire.steps is not None
        if wire is not None and wire.end_as_heard():
            return
        heard_s = wire.received.heard_s if wire else None
        outcome = fire.timed(fire.out_of_time(), heard_s)
        try:
            self._let_go(fire)
        finally:
            self._end(fire, outcome)
        if connecting:
            self._end_hopeless(fire.target.origin)

    def _end_hopeless(self, origin: Origin) -> None:
        """End fires that were queued for their whole time limit, in which the target gave no
        connection: an account's dead host must not fill its slots for hours."""
        for waiting in self._slots.pop_hopeless(origin, time.monotonic()):
            self._end(waiting, timed_out(waiting.limit_ms))

    def _let_go(self, fire: Fire) -> None:
        if fire.steps is not None:
            fire.steps.cancel()
            fire.steps = None
        if fire.wire is not None:
            fire.wire.abort()
            fire.wire = None
