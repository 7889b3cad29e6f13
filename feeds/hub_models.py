"""The models of hubs and clouds: those of other sites with our subscriptions, and our own with its subscribers."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from .push.kinds import MAX_OFFER_URL_CHARACTERS, PushKind
from .push.leases import ENDED_STATES, SubscriberStatus, SubscriptionStatus

MAX_TOKEN_CHARACTERS = 64
MAX_CALLBACK_CHARACTERS = 2200
"""Of a callback, and of a topic's address."""


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


class HubTopic(models.Model):
    """An address of this site's output that others subscribe to: a feed or a combination in one format.

    `version` is the last that its subscribers were to be told of, at `announced_at`. `entries` is the number of
    entries in deliveries; 0: as many as the page has. `digest` is of the address and the subject: another feed that
    gets the same slug is another topic. A topic whose subject is gone has neither feed nor category. No foreign keys:
    earlier versions delete feeds and categories.
    """

    feed = models.ForeignKey(
        "feeds.Feed", null=True, related_name="hub_topics", on_delete=models.SET_NULL, db_constraint=False
    )
    category = models.ForeignKey(
        "feeds.Category", null=True, related_name="hub_topics", on_delete=models.SET_NULL, db_constraint=False
    )
    path = models.CharField("path", max_length=250)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    version = models.BigIntegerField(default=0, db_default=0, editable=False)
    entries = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    announced_at = models.DateTimeField("last told of", null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("path",)
        verbose_name = "topic of our hub"
        verbose_name_plural = "topics of our hub"

    def __str__(self) -> str:
        return self.path


class Subscriber(models.Model):
    """Another site's subscription of a topic. `digest` is of its kind, its callback, procedure and topic.

    `host` is the domain of its callback, by which subscribers are counted. `procedure` is called by XML-RPC;
    `is_named`: a cloud's subscriber is verified by a challenge, else by a first ping. A request that its callback has
    not confirmed is in `intent` (`subscribe`, `unsubscribe`; `denied`: it is told that it has ended), `asked_at`,
    `asked_secret` and `asked_seconds`; the callback is asked about it at `ask_at`. The topic is owed to it in
    `wanted_version`, unless `told_version` is as new, at `due_at` at the earliest; None: nothing is owed.
    """

    KINDS = [(PushKind.WEBSUB.value, "WebSub"), (PushKind.RSSCLOUD.value, "rssCloud")]
    STATES = [(state.value, state.value) for state in SubscriberStatus]

    topic = models.ForeignKey(HubTopic, related_name="subscribers", on_delete=models.CASCADE)
    kind = models.CharField(max_length=10, choices=KINDS)
    callback = models.CharField(max_length=MAX_CALLBACK_CHARACTERS, editable=False)
    host = models.CharField(max_length=255, db_index=True, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    procedure = models.CharField(max_length=200, blank=True, db_default="", editable=False)
    is_named = models.BooleanField(default=True, db_default=True, editable=False)
    sealed_secret = models.TextField(blank=True, db_default="", editable=False)

    state = models.CharField(max_length=10, choices=STATES, default=SubscriberStatus.ASKED.value, editable=False)
    intent = models.CharField(max_length=12, blank=True, db_default="", editable=False)
    asked_at = models.DateTimeField("last request", null=True, editable=False)
    asked_secret = models.TextField(blank=True, db_default="", editable=False)
    asked_seconds = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    ask_at = models.DateTimeField(null=True, editable=False)
    asks = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    """The number of times that the last request was handed over for verification."""
    verified_at = models.DateTimeField("in force since", null=True, editable=False)
    expires_at = models.DateTimeField("expires", null=True, editable=False)

    wanted_version = models.BigIntegerField(default=0, db_default=0, editable=False)
    told_version = models.BigIntegerField(default=0, db_default=0, editable=False)
    due_at = models.DateTimeField("next delivery", null=True, editable=False)
    delivered = models.PositiveIntegerField("deliveries", default=0, db_default=0, editable=False)
    delivered_at = models.DateTimeField("last delivery", null=True, editable=False)
    failures = models.PositiveIntegerField("failures in a row", default=0, db_default=0, editable=False)
    reason = models.TextField("how it stands", blank=True, db_default="", editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ("-created_at",)
        verbose_name = "subscriber of our hub"
        verbose_name_plural = "subscribers of our hub"
        indexes = (
            models.Index(fields=("due_at", "id"), condition=Q(due_at__isnull=False), name="due_subscribers"),
            models.Index(fields=("ask_at",), condition=Q(ask_at__isnull=False), name="asked_subscribers"),
            models.Index(fields=("topic", "state"), name="subscribers_of_topics"),
            models.Index(fields=("expires_at",), condition=Q(expires_at__isnull=False), name="lapsed_subscribers"),
            models.Index(fields=("ended_at",), condition=Q(ended_at__isnull=False), name="ended_subscribers"),
        )

    def __str__(self) -> str:
        return f"{self.host}: {self.topic}"
