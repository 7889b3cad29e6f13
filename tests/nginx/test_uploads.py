"""The admin's forms that take files are known to nginx, all of them and no others."""

from collections.abc import Callable

import pytest
from django.contrib import admin
from django.test import Client

from ..unit.project.test_policy import pages_of, row
from .conftest import RunningFront


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_pages_where_a_file_is_chosen_take_large_bodies_and_no_others(
    start: Callable[..., RunningFront], admin_client: Client
) -> None:
    site = start(upload_max_bytes=1_000_000)
    for model in admin.site._registry:
        if not model._base_manager.exists():
            row(model)
    pages = [address for model in admin.site._registry for address in pages_of(model)]
    with_files = {address for address in pages if b"multipart/form-data" in admin_client.get(address).content}
    taken = {address for address in pages if site.get(address, method="POST", Content_Length="200000").status == 403}
    assert with_files == taken
    assert len(taken) == 3
