"""The models of hubs and clouds: those of other sites, with this site's subscriptions there."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from .push.leases import ENDED_STATES, SubscriptionStatus
from .push.offers import MAX_OFFER_URL_CHARACTERS, PushKind

MAX_TOKEN_CHARACTERS = 64


class Hub(models.Model):
    """A server that tells of changes: a cloud of rssCloud, or a hub of WebSub. `digest` is of its kind and its URL.

    `arrived` counts pushes with news, `missed` news found without one; `share` is the recent share that arrived
    (`trust.HubScore`). `first_push_at` is that of the first push with news.
    """

    KINDS = [(PushKind.RSSCLOUD.value, "rssCloud"), (PushKind.WEBSUB.value, "WebSub")]

    kind = models.CharField(max_length=10, choices=KINDS)
    url = models.CharField("address", max_length=MAX_OFFER_URL_CHARACTERS)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    arrived = models.PositiveIntegerField("pushes that arrived", default=0, editable=False)
    missed = models.PositiveIntegerField("news found without a push", default=0, editable=False)
    share = models.FloatField("share that arrived of late", default=0.0, editable=False)
    first_push_at = models.DateTimeField(null=True, editable=False)
    last_push_at = models.DateTimeField(null=True, editable=False)
    trusted_since = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("url",)

    def __str__(self) -> str:
        return self.url


class Subscription(models.Model):
    """A subscription of a feed at a hub. Outlives its feed, until the hub has been told.

    `token` is its address here, random: only a server that was asked knows it. `offer_digest` is that of its
    `offers.PushOffer`, `topic` the hub's URL for the feed. `intent` is the last request, made at `asked_at`, in
    WebSub's words for either protocol (empty: nothing is pending): a server's verification is confirmed for that
    alone. `due_at` is the time of the next step; None: there is none. The counts of pushes are those of
    `trust.PushRecord`.
    """

    STATES = [(state.value, state.value) for state in SubscriptionStatus]

    feed = models.ForeignKey("feeds.Feed", null=True, related_name="subscriptions", on_delete=models.SET_NULL)
    hub = models.ForeignKey(Hub, related_name="subscriptions", on_delete=models.CASCADE)
    offer_digest = models.CharField(max_length=64, editable=False)
    topic = models.CharField(max_length=MAX_OFFER_URL_CHARACTERS, editable=False)
    procedure = models.CharField(max_length=200, blank=True, editable=False)
    """The XML-RPC procedure that registers; empty: a form is sent."""
    token = models.CharField(max_length=MAX_TOKEN_CHARACTERS, unique=True, editable=False)
    sealed_secret = models.TextField(blank=True, editable=False)

    state = models.CharField(max_length=10, choices=STATES, default=SubscriptionStatus.WANTED.value, editable=False)
    intent = models.CharField(max_length=12, blank=True, editable=False)
    way = models.PositiveSmallIntegerField(default=0, editable=False)
    """The index of the way in which the cloud is asked (`rsscloud.callback_ways`)."""
    asked_at = models.DateTimeField("last asked", null=True, editable=False)
    verified_at = models.DateTimeField("in force since", null=True, editable=False)
    expires_at = models.DateTimeField("expires", null=True, editable=False)
    due_at = models.DateTimeField("next request", null=True, editable=False)
    failures = models.PositiveIntegerField("failures in a row", default=0, editable=False)
    reason = models.TextField("how it stands", blank=True, editable=False)
    arrived = models.PositiveIntegerField("pushes that arrived", default=0, editable=False)
    missed = models.PositiveIntegerField("news found without a push", default=0, editable=False)
    in_a_row = models.PositiveIntegerField("arrived in a row", default=0, editable=False)
    before_miss = models.PositiveIntegerField(default=0, editable=False)
    missed_at = models.DateTimeField(null=True, editable=False)
    vain_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.UniqueConstraint(
                fields=("feed",),
                condition=Q(feed__isnull=False) & ~Q(state__in=ENDED_STATES),
                name="one_subscription_of_a_feed",
            ),
        )
        indexes = (
            models.Index(fields=("due_at",), condition=Q(due_at__isnull=False), name="due_subscriptions"),
            models.Index(fields=("ended_at",), condition=Q(ended_at__isnull=False), name="ended_subscriptions"),
        )

    def __str__(self) -> str:
        return f"{self.topic} at {self.hub}"
