"""`python -m benchmarks.fetch.direct`: calls the slow content's preparer, without the site.

Each line of its input is a number of seconds to prepare for; each line of its output, how many it took.
"""

import sys
import time
from uuid import uuid4

import django

django.setup(set_prefix=False)

from tests.flows.slow.slow_content import SlowContent  # noqa: E402
from tests.flows.slow.tasks import make  # noqa: E402


def main() -> None:
    for line in sys.stdin:
        wanted = SlowContent(uuid4().hex, seconds=float(line), size=8000)
        began = time.perf_counter()
        make(wanted, 1)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
