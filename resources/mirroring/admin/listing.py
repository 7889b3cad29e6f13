"""What the admin's lists of mirrored URLs and files have in common: how they look, and what a digest is."""

import re

from resources.listing import UncountedAdmin

DIGEST = re.compile(r"[0-9a-f]{64}")


class MirroredAdmin(UncountedAdmin):
    change_list_template = "admin/resources/mirroring/uncounted.html"
