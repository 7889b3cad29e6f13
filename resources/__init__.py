"""The site's slow content: map tiles, files mirrored from other servers, and the fetching of both.

Public: `changelists`, `charts`, `database`, `humanize`, `locks`, `machines`, `problems`, `sandbox`.

The other modules are for `resources` itself. Each package has a list of its own.
"""
