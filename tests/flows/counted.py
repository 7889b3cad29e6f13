"""The settings of flows, with requests for slow content counted."""

from tests.flows.settings import *  # noqa: F403
from tests.flows.settings import TRAFFIC

TRAFFIC = {**TRAFFIC, "/slow/": "tests.flows.slow.traffic.asked"}
