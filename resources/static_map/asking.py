"""What the address of a static map asks for, for the counts of traffic. PURE.

Which map it is stands in the arguments, which the log leaves out: requests are counted, and no popularity is known.
"""

from resources.traffic.asked import Asked

KIND = "staticmap"


def asked(address: str) -> Asked | None:
    return Asked(KIND) if address == "/staticmap" else None
