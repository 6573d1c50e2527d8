"""Which entity tag a call wants to find on what it reads or writes: If-Match and If-None-Match, as
RFC 9110 has them. Pure."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.errors import PreconditionFailed

# Every thing that is there has it.
ANY = "*"


class Precondition(NamedTuple):
    """`match`: the thing has to have one of these tags; `none_match`: it may have none of them.
    Tags are quoted, as in their headers. None: that header was not given."""

    match: frozenset[str] | None = None
    none_match: frozenset[str] | None = None

    @classmethod
    def of(cls, etag: str) -> Precondition:
        """The thing is as it was when it had this tag."""
        return cls(frozenset((quoted(etag),)))

    def fits(self, etag: str | None, *, is_there: bool = True) -> bool:
        """Of If-Match. `etag`: of the thing as it is now; None: it has none, as it is not there."""
        return self.match is None or not self.match.isdisjoint(_tags(etag, is_there))

    def is_known(self, etag: str | None, *, is_there: bool = True) -> bool:
        """Of If-None-Match: the caller has it, or does not want it to be there."""
        known = self.none_match
        return known is not None and not known.isdisjoint(_tags(etag, is_there))

    def judge(self, etag: str | None, *, is_there: bool = True, is_so: bool = False) -> None:
        """Before a write. `is_so`: there is nothing to do, maybe because an earlier call with the
        same tag did it and its answer was lost. Raises PreconditionFailed."""
        is_repeat = is_so and self.match is not None and ANY not in self.match
        if not is_repeat and not self.fits(etag, is_there=is_there):
            raise PreconditionFailed
        if self.is_known(etag, is_there=is_there):
            raise PreconditionFailed


# A call that writes whatever it finds.
ALWAYS = Precondition()


def quoted(etag: str) -> str:
    return f'"{etag}"'


def _tags(etag: str | None, is_there: bool) -> tuple[str, ...]:
    tags = () if etag is None else (quoted(etag),)
    return (ANY, *tags) if is_there else tags
