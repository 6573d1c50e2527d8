"""The items of a batch, and bodies of creates that come one after the other: most are judged and
packed in one pass, without a `Request` in between.

They differ from the item before in their URL, body, lane and reference, seldom in their time and
headers, and hardly ever in the host or in how they are sent. An item with a body of another kind or
with `expiresAt` goes the usual way. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from api.limits import MAX_ITEMS
from api.reading import with_trace
from api.schema import rules
from api.schema.fields import FIELDS, ON_EXISTING
from api.schema.findings import Findings
from api.schema.headers import fine_headers
from api.schema.json_text import List, Part
from api.schema.payload import parse_create, way_of
from api.schema.rules import Rules
from scheduler.errors import InvalidRequest
from scheduler.models import Delivery, Packed, Request, Upsert, usual_method
from scheduler.schema import LONGEST_URL
from scheduler.store.stored import pack_fields, pack_headers, tail_of
from scheduler.target.short_texts import LETTERS, short_target
from scheduler.target.targets import unescaped_from, usual_place

_MOST_PLACES = 16
# So many small items are judged at once, in some 0.1 ms; after an odd one, so few.
_FEW, _FEWEST, _SMALL_BYTES = 32, 2, 4096
_WITHOUT_BODY, _WITH_BODY = usual_method(None), usual_method(b"{}")
_NULL = msgspec.Raw(b"null")
_Text = str | UnsetType


class Item(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """One without further fields, decoded."""

    target_url: str
    trigger_at: _Text = UNSET
    delay: _Text | int = UNSET
    target_method: _Text = UNSET
    target_headers: msgspec.Raw = _NULL
    target_body: msgspec.Raw = _NULL
    lane: str | None = None
    reference: str | None = None
    on_existing: msgspec.Raw | UnsetType = UNSET
    max_wait: msgspec.Raw | UnsetType = UNSET


# They depend on the time or on the body.
_UNUSUAL = {"targetBodyText", "targetBodyBase64", "expiresAt"}
_own = {field.encode_name for field in msgspec.structs.fields(Item)}
# How an item is sent: fields that follow the body when it is packed. Their rules look at no others.
# Items are alike if these have the same text; null and a field left out differ.
_REST = tuple(name for name in FIELDS if name not in _own | _UNUSUAL)
_rest_of = attrgetter(*_REST)
_TYPED = [(name, msgspec.Raw | UnsetType, UNSET) for name in _REST]
_Whole = msgspec.defstruct("_Whole", _TYPED, bases=(Item,), forbid_unknown_fields=True, gc=False)
_decode = msgspec.json.Decoder(cast("type[Item]", _Whole)).decode
_decode_bare = msgspec.json.Decoder(Item).decode
_all_bare = List(MAX_ITEMS, "schedules", of=Item).elements_within
_encode = msgspec.json.Encoder().encode
# Raised for what breaks a rule or is unusual.
_CLOSER_LOOK = (ValueError, RecursionError, InvalidRequest)


def bare_items(data: bytes, most_bytes: int) -> list[Item]:
    """The items of a batch, decoded in one pass; none if one of them has further fields, if the
    text of one may be larger than `most_bytes`, and of all that is no batch."""
    try:
        items: list[Item] = _all_bare(data)
    except InvalidRequest:
        return []
    if items and len(data) > most_bytes:
        sizes = [len(each.target_url) + len(each.target_body) for each in items]
        # The bytes beside URLs and bodies may all be of the largest item.
        if len(data) - sum(sizes) + max(sizes) > most_bytes:
            return []
    return items


def text_of(item: Part | Item) -> bytes:
    """Of a decoded one, a text with the same values."""
    return _encode(item) if isinstance(item, Item) else bytes(item)


class Items:
    """Judges the items of one batch in turn, as of one moment. Keeps what it has judged: schemes,
    hosts and ports; the time, headers and further fields of the last item; and whether that was
    refused, for the next one is likely to be refused as well."""

    def __init__(self, allowed: Rules, now_ms: int, trace: bytes | None = None) -> None:
        self._rules, self._now_ms, self._trace = allowed, now_ms, trace
        self._places: set[tuple[str, str]] = set()
        # Of the last usual URL: scheme and host, up to the path's slash, and how long they are; the
        # letters of the scheme with each method, and how much of the URL these stand for.
        self._place: tuple[str, ...] = ()
        self._place_size = self._cut = 0
        self._letters: dict[str, str] = {}
        self._method: _Text = UNSET
        self._name = ""  # of that method
        self._lane: str | None = None
        self._time: tuple[_Text, _Text | int] | None = None
        self._due_ms = 0
        self._headers, self._packed_headers = _NULL, pack_headers({})
        self._rest: tuple[msgspec.Raw | UnsetType, ...] | None = None
        self._is_bare = False  # whether that item had no further fields
        # The packed fields after the body, for an item with a method and for one without.
        self._tails: tuple[tuple[object, ...], ...] = ()
        self._delivery = Delivery.AT_LEAST_ONCE
        self._ways: tuple[msgspec.Raw | UnsetType, ...] = UNSET, UNSET
        self._keep: bool | None = None
        self._max_wait_ms: int | None = None
        self._was_refused = False
        self._ahead = _FEWEST  # how many items may be judged at once
        self._is_odd = False  # whether the next item was found to need a closer look

    def renew(self, now_ms: int) -> None:
        """The next item is judged as of another moment. Few places outlive it."""
        self._now_ms, self._time = now_ms, None
        if len(self._places) > _MOST_PLACES:
            self._places.clear()

    def first_alike(self, items: Sequence[Part | Item], start: int) -> list[Packed | Upsert]:
        """The requests of some items from there on, up to one that `judged` has to look at."""
        made = list[Packed | Upsert]()
        if self._is_odd or self._was_refused or not self._is_bare:
            return made
        few = items[start : start + self._ahead]
        if isinstance(few[0], Item):  # then all are
            decoded = cast("Iterable[Item]", few)
        else:
            texts = cast("Sequence[Part]", few)
            if max(map(len, texts)) > min(_SMALL_BYTES, self._rules.max_body_bytes):
                return made
            decoded = map(_decode_bare, texts)
        try:
            made.extend(self._packed(decoded))  # those before an odd one, too
            self._ahead = min(2 * self._ahead, _FEW)
        except _CLOSER_LOOK:
            self._is_odd, self._ahead = True, _FEWEST
        return made

    def judged(self, text: bytes) -> Packed | Request | Upsert:
        """The request to store for an item in UTF-8 JSON. Raises as `parse_create` does."""
        is_odd, self._is_odd = self._is_odd, False
        if self._is_bare and not (is_odd or self._was_refused):
            try:
                return next(self._packed((_decode_bare(text),)))
            except _CLOSER_LOOK:
                pass  # it may have further fields
        rest = None
        try:
            item = _decode(text)
            rest = _rest_of(item)
            if rest == self._rest:
                return next(self._packed((item,)))
        except _CLOSER_LOOK:
            rest = None
        was_refused, self._was_refused = self._was_refused, True
        parsed = parse_create(text, self._rules, self._now_ms, is_doubtful=was_refused)
        self._was_refused = False
        wanted = with_trace(parsed, self._trace)
        request = wanted.request if isinstance(wanted, Upsert) else wanted
        if rest is not None and isinstance(request, Request):
            either = (replace(request, method_given=given) for given in (True, False))
            self._rest, self._tails = rest, tuple(map(tail_of, either))
            self._is_bare = all(each is UNSET for each in rest)
            self._delivery = request.delivery
        return wanted

    def _packed(self, items: Iterable[Item]) -> Iterator[Packed | Upsert]:
        """Raises ValueError or InvalidRequest at one that breaks a rule, or needs a closer look.
        One long loop: with a call for each part of it, an item took half as long again."""
        for item in items:
            url, text, tail = item.target_url, bytes(item.target_body), self._tails[1]
            is_alike = url.startswith(self._place) and unescaped_from(url, self._place_size)
            if not is_alike or len(url) > LONGEST_URL:
                self._judge_url(url)
            if self._time != (item.trigger_at, item.delay):
                self._judge_time(item.trigger_at, item.delay)
            if self._headers != item.target_headers:
                self._judge_headers(item.target_headers)
            body, name = (text, _WITH_BODY) if text[:1] == b"{" else (_no_body(text), _WITHOUT_BODY)
            if item.target_method is not UNSET:
                name, tail = self._name_of(item.target_method), self._tails[0]
            if item.reference is not None or item.lane is not None:
                self._judge_names(item)
            letter, rest = self._letters.get(name), url[self._cut :]
            if letter is None:
                letter, rest = short_target(name, url)
            fields = self._due_ms, letter, rest, self._packed_headers, body
            packed = pack_fields(fields + tail)
            made = Packed(self._due_ms, packed, item.reference, item.lane, self._delivery)
            if item.on_existing is UNSET and item.max_wait is UNSET:
                yield made
            else:
                yield self._upsert(item, made)

    def _upsert(self, item: Item, made: Packed) -> Packed | Upsert:
        ways = item.on_existing, item.max_wait
        if ways != self._ways:
            self._judge_ways(*ways)
        if self._keep is None:
            return made
        if item.reference is None:
            raise ValueError("no reference")
        return Upsert(made, self._keep, self._max_wait_ms)

    def _judge_url(self, url: str) -> None:
        place = usual_place(url)
        if place not in self._places or "%" in url:
            rules.target_url(url, self._rules, self._now_ms)
        self._place, self._letters = (), {}
        if place is not None:
            self._places.add(place)
            scheme, host = place
            self._place, self._letters = (f"{scheme}://{host}/",), LETTERS[scheme]
            self._place_size, self._cut = len(self._place[0]), len(f"{scheme}://")

    def _name_of(self, method: str) -> str:
        if method != self._method:
            self._name = rules.target_method(method, self._rules, self._now_ms)
            self._method = method
        return self._name

    def _judge_names(self, item: Item) -> None:
        if item.reference is not None:
            rules.reference(item.reference, self._rules, self._now_ms)
        if item.lane is not None and item.lane != self._lane:
            rules.lane(item.lane, self._rules, self._now_ms)
            self._lane = item.lane

    def _judge_time(self, trigger_at: _Text, delay: _Text | int) -> None:
        if trigger_at is not UNSET and delay is UNSET:
            self._due_ms = rules.trigger_at(trigger_at, self._rules, self._now_ms)
        elif trigger_at is UNSET and delay is not UNSET:
            self._due_ms = rules.delay(delay, self._rules, self._now_ms)
        else:
            raise ValueError("not one time")
        self._time = trigger_at, delay

    def _judge_headers(self, text: msgspec.Raw) -> None:
        headers = {} if text == _NULL else fine_headers(bytes(text))
        self._headers, self._packed_headers = text, pack_headers(headers)

    def _judge_ways(self, *texts: msgspec.Raw | UnsetType) -> None:
        given = (_NULL if text is UNSET else text for text in texts)
        findings = Findings()
        keep, max_wait_ms = way_of(
            dict(zip(ON_EXISTING, given, strict=True)), self._rules, findings
        )
        findings.refuse_if_any()
        self._ways, self._keep, self._max_wait_ms = texts, keep, max_wait_ms


def _no_body(text: bytes) -> bytes | None:
    """Of null. Raises ValueError for all else that is no object."""
    if text != b"null":
        raise ValueError("no object")
    return None
