"""The router of mirrored files. One for several modules: ninja answers other methods of an address by router."""

from ninja import Router

router = Router(tags=["mirrored files"])
