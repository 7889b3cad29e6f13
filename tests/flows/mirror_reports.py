"""`python -m tests.flows.mirror_reports [HOST…] < LIST`: reports URLs to a stack, as whoever has a list does.

The hosts are asked without gaps from then on. Prints, as JSON, how many were known and how many are wanted now.
"""

import json
import sys
from datetime import UTC, datetime

import django

import project.celery  # noqa: F401  as in the web processes

django.setup()

from resources.fetching.keeping import limiting  # noqa: E402
from resources.mirroring.canonical.urls import canonical  # noqa: E402
from resources.mirroring.knowing import seen  # noqa: E402
from resources.mirroring.knowing.rules import current_rules  # noqa: E402
from resources.mirroring.writing import wanting  # noqa: E402


def main() -> None:
    rules, now = current_rules(), datetime.now(UTC)
    for host in sys.argv[1:]:
        limiting.change(host, delay_seconds=0, in_flight=2)
    found = {(one := canonical(url, rules)).digest: (one, url) for url in sys.stdin.read().split()}
    known = seen.look_up(found)
    unknown = [digest for digest in found if digest not in known]
    wanting.want([wanting.Wanted(digest, found[digest][1], found[digest][0].host, "", now) for digest in unknown])
    print(json.dumps({"reported": len(found), "known": len(known), "wanted": len(unknown)}))


if __name__ == "__main__":
    main()
