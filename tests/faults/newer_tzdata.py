"""`postdate`, with the time zones of today under the name of a later version."""

from __future__ import annotations

import tzdata

tzdata.IANA_VERSION = "2099z"

from cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
