"""The API as an app, over as many stores as there are tests."""

from __future__ import annotations

import copy
import functools

from litestar.datastructures import State

from api.app import create_app, direct_of
from api.hosts import Hosts
from api.methods import App
from api.service import Service
from scheduler.settings import Settings
from scheduler.store import Store


def app_of(settings: Settings, store: Store) -> App:
    """What `create_app` makes of them. The routes are the same for all and were registered once:
    that takes longer than most tests do. No lifespan: all that it does is to open a store."""
    built, service = _built(), Service(settings, store)
    app = copy.copy(built)
    app.state = State({"service": service, "document": built.state.document})
    app._tally = service.tally
    app._hosts = Hosts(settings)
    app._direct = direct_of(service)
    return app


@functools.cache
def _built() -> App:
    app = create_app(Settings())
    assert isinstance(app, App)
    return app
