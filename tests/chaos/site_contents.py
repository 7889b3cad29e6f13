"""`python -m tests.chaos.site_contents < GIVEN`: puts the given data into a running site. Prints its addresses.

One process for all of it: each management command for itself would take seconds. Both are JSON.
"""

import json
import sys
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import django

import project.celery  # noqa: F401  as in the web processes

django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402

from resources.fetch import host_settings  # noqa: E402
from resources.mirror import links  # noqa: E402

FOLLOWER = "reader"
IN_FLIGHT = 4


def main(given: dict[str, Any]) -> dict[str, Any]:
    for url in given["origins"]:
        host_settings.change_domain(urlsplit(url).netloc, delay_seconds=0.05, in_flight=IN_FLIGHT)
    style = '{"widths": {"0": 12}}'
    line = ("--lines", given["line"], "--speeds", given["speeds"], "--style", style)
    said = StringIO()
    call_command("load_layer", "line", *line, stdout=said)
    for slug, template in given["upstream"].items():
        call_command("load_layer", slug, "--upstream", template, stdout=said)
    User.objects.get_or_create(username=FOLLOWER)
    call_command("import_opml", given["opml"], "--follow", FOLLOWER, stdout=said, stderr=said)
    printed = StringIO()
    call_command("create_token", "steady", "--mirror", stdout=printed)
    return {"token": printed.getvalue().strip(), "signed": {url: links.sign_url(url) for url in given["files"]}}


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
