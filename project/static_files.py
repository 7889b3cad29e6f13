"""The storage that names static files for browsers. Serves none: nginx does."""

from django.contrib.staticfiles.storage import ManifestStaticFilesStorage


class HashedStaticFiles(ManifestStaticFilesStorage):
    """Hashes the names in JavaScript's imports, too: else a browser joins old modules with new ones."""

    support_js_module_import_aggregation = True
