"""What both clients are held to: `clients/shared.json`, which the tests of TypeScript read too."""

from __future__ import annotations

import json
from typing import Any

from tests.support.processes import ROOT

SHARED: dict[str, Any] = json.loads((ROOT / "clients/shared.json").read_text())
CREATES: dict[str, int] = SHARED["creates"]
FAULTS: list[dict[str, Any]] = SHARED["faults"]
TEXTS: dict[str, str] = SHARED["texts"]
