"""The hub (WebSub) and the cloud (rssCloud) of this site's own output: they take subscribers' requests by POST.

A request is checked and noted; its callback is asked by a fetcher. So no request waits for another site.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from urllib.parse import parse_qs

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from resources import database
from retry import responses
from retry.errors import StoreUnavailable

from ..push import rsscloud, websub
from ..push.kinds import PushKind
from ..push.rsscloud import FORM_TYPE, XML_TYPE, CloudRegistration
from ..subscriptions.views import (
    BYPASS_STATUS,
    XML_TYPES,
    CallbackRefusedError,
    read_body,
    refusal_response,
    text_response,
)
from . import registration
from .registration import CallbackRequest, RegistrationRefusedError

MAX_REQUEST_BYTES = 16_384
MAX_FIELDS = 50
REGISTERED = "Registered. The subscriber is verified in a moment, and told of changes for 25 hours."


def _hub_view(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Decorates a view that other sites call by POST. Where this site is no hub, it answers 404."""

    @csrf_exempt
    @wraps(view)
    @database.answer_outages
    def answered(request: HttpRequest) -> HttpResponse:
        if settings.FEEDS_HUB != websub.OWN_HUB:
            return responses.not_found_response("This site is no hub.")
        if request.method != "POST":
            detail = "Send a subscription by POST, as WebSub or rssCloud has it."
            return refusal_response(CallbackRefusedError(405, detail, Allow="POST"))
        try:
            return view(request)
        except CallbackRefusedError as error:
            return refusal_response(error)
        except RegistrationRefusedError as error:
            return _refuse(error)
        except StoreUnavailable:
            return responses.not_now_response("Subscriptions cannot be taken now.")

    return answered


@_hub_view
def hub(request: HttpRequest) -> HttpResponse:
    """`/hub`: takes subscriptions and their ends (WebSub, 5.1), to be verified: 202."""
    body = read_body(request, (FORM_TYPE,), MAX_REQUEST_BYTES)
    try:
        asked = CallbackRequest.from_websub(websub.read_hub_request(_read_form(body)))
    except ValueError as error:
        raise RegistrationRefusedError(400, str(error)) from error
    _note_requests(request, [asked])
    response = text_response("The callback is asked whether it wants that.\n")
    response.status_code = 202
    return response


@_hub_view
def cloud(request: HttpRequest) -> HttpResponse:
    """`/hub/cloud`: takes registrations by form and by XML-RPC. A refusal is an answer of 200, as of all clouds."""
    body = read_body(request, (FORM_TYPE, *XML_TYPES), MAX_REQUEST_BYTES)
    is_called = (request.content_type or "").lower() in XML_TYPES
    try:
        read = rsscloud.read_registration_call if is_called else _read_registration_form
        _note_requests(request, _cloud_requests(request, read(body)))
    except (ValueError, RegistrationRefusedError) as error:
        refused = rsscloud.write_fault(str(error))
        if not is_called:
            refused = rsscloud.write_notify_result(success=False, message=str(error))
        return text_response(refused, XML_TYPE)
    accepted = rsscloud.write_acceptance()
    if not is_called:
        accepted = rsscloud.write_notify_result(success=True, message=REGISTERED)
    return text_response(accepted, XML_TYPE)


def _note_requests(request: HttpRequest, asked: list[CallbackRequest]) -> None:
    """Raises RegistrationRefusedError, StoreUnavailable and DatabaseError."""
    now = timezone.now()
    registration.count_requests(responses.client_network_of(request), len(asked), now)
    for each in asked:
        registration.note_request(each, now)


def _cloud_requests(request: HttpRequest, asked: CloudRegistration) -> list[CallbackRequest]:
    host = asked.domain or responses.client_address(request)
    if not host:
        raise ValueError("Your address is not known: name your domain.")
    callback, is_named = asked.callback_at(host), bool(asked.domain)
    own = {"procedure": asked.procedure, "is_named": is_named}
    return [CallbackRequest(PushKind.RSSCLOUD, callback, url, **own) for url in asked.urls]  # type: ignore[arg-type]


def _read_registration_form(body: bytes) -> CloudRegistration:
    return rsscloud.read_registration_form(_read_form(body))


def _read_form(body: bytes) -> Mapping[str, list[str]]:
    """Raises ValueError for anything but a form in UTF-8."""
    if b"%00" in body or b"\0" in body:
        raise ValueError("A form has no NUL characters.")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise ValueError("This is not a form.") from error


def _refuse(error: RegistrationRefusedError) -> HttpResponse:
    wait = float(registration.COUNTED_SECONDS) if error.status in {429, 503} else None
    return responses.problem_response(error.status, str(error), wait_seconds=wait, cache_status=BYPASS_STATUS)
