"""End a free trial after 14 days, unless the customer pays before. Django.

pip install postdate-client django
python trial.py runserver --noreload 9000
curl -X POST 127.0.0.1:9000/signup/ada
"""

import json
import os

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

from postdate import Postdate, VerificationFailed, verify

OWN_URL = os.environ.get("OWN_URL", "http://127.0.0.1:9000")
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], DEBUG=True)
postdate = Postdate()  # reads POSTDATE_URL and POSTDATE_API_KEY
secrets = [each.secret for each in postdate.signing()]
plans: dict[str, str] = {}  # stands for your database


@require_POST
def signup(request: HttpRequest, user: str) -> HttpResponse:
    plans[user] = "trial"
    # "keep": a second sign-up, or a repeat of this request, does not start the trial again.
    postdate.schedule(
        f"{OWN_URL}/trial-ended", delay="14d", json={"user": user}, retries=5,
        reference=f"trial-{user}", on_existing="keep",
    )  # fmt: skip
    return JsonResponse({"plan": "trial"}, status=201)


@require_POST
def paid(request: HttpRequest, user: str) -> HttpResponse:
    plans[user] = "paid"
    list(postdate.cancel_many(reference=f"trial-{user}"))
    return JsonResponse({"plan": plans[user]})


@require_POST
def trial_ended(request: HttpRequest) -> HttpResponse:
    try:
        verify(request.headers, request.body, secrets)
    except VerificationFailed:
        return HttpResponse(status=401)
    user = json.loads(request.body)["user"]
    if plans.get(user) == "trial":  # the payment may have come meanwhile
        plans[user] = "free"
    return HttpResponse(status=204)


urlpatterns = [
    path("signup/<user>", signup), path("paid/<user>", paid), path("trial-ended", trial_ended),
]  # fmt: skip
execute_from_command_line()
