"""What an address asks for. PURE."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """Content that an address names: how its requests are counted, and by which key its popularity is known.

    `kind` is the word before the first colon of the kind's content keys. `group`, as a tile's
    layer, divides the kind; without blanks, and empty if there are none. Without a content key
    requests are counted, and no popularity is known. `noted` is what the function that TRAFFIC_NOTED has
    for the kind is told when somebody wanted it; where readers are counted (TRAFFIC_READERS), with a blank and the
    reader's number behind it. `part`, as a tile's zoom, divides the group: requests are counted under both.
    """

    kind: str
    group: str = ""
    content_key: str = ""
    noted: str = ""
    part: str = ""
