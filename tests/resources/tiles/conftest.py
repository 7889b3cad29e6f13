"""The layers that tests load, under the name by which the tests here know them."""

from tests.resources.conftest import AREAS, LINES, Load

__all__ = ["AREAS", "LINES", "Load"]
