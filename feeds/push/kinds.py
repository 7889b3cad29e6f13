"""The kinds of push, and the longest URLs that are stored of them: what the models need of offers. PURE."""

from enum import Enum

MAX_OFFER_URL_CHARACTERS = 2000


class PushKind(Enum):
    RSSCLOUD = "rsscloud"
    WEBSUB = "websub"
