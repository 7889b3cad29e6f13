"""Mirrored files: fetched once per URL, stored once per content, served from here.

Public: `links` (signed addresses), `errors`, `models`, `conf`, `url_rules`, `views`, `public_files` for nginx, and
for Celery tasks `hosts`, `rekey`, `thumbnail_painter`.

Each package has a list of its own.
"""
