"""GET /: who knows the host only."""

from __future__ import annotations

from tests.api.conftest import Api


async def test_a_browser_is_led_to_the_dashboard(api: Api) -> None:
    browser = await api.client.get("/", headers={"accept": "text/html,*/*;q=0.8"})
    assert (browser.status_code, browser.headers["location"]) == (303, "/dashboard")
    other = await api.client.get("/", headers={"accept": "*/*"})
    assert (other.status_code, other.json()["documentation"]) == (200, "/schema")
    assert other.headers["vary"] == "accept"
