"""The content that an address names.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """Content that an address names: the names that its requests are counted under, and its key for popularity.

    `kind` is the word before the first colon of the kind's content keys. `group`, as a tile's layer, divides the kind;
    it has no blanks, and is empty if there are no groups. Without a content key requests are counted, but no
    popularity. TRAFFIC_NOTED's function for the kind gets `noted` after a request for the content; where readers are
    counted (TRAFFIC_READERS), with a blank and the reader's number behind it. `part`, as a tile's zoom, divides the
    group: requests are counted under both.
    """

    kind: str
    group: str = ""
    content_key: str = ""
    noted: str = ""
    part: str = ""
