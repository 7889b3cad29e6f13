"""`manage.py create_token NAME`: issues a token for the API, and prints it this once."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.api import tokens
from resources.api.models import ApiToken
from resources.management.failing import failing_clearly

MOST_DAYS = 36_500


class Command(BaseCommand):
    help = "Issues a token for the API. It is printed this once, and kept nowhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what uses it")
        parser.add_argument("--layers", nargs="*", default=[], metavar="SLUG", help="what it may change; default: all")
        parser.add_argument("--mirror", action="store_true", help="it may mirror files, too")
        parser.add_argument("--take-down", action="store_true", help="it may take mirrored files down, too")
        parser.add_argument("--feeds", action="store_true", help="it may manage feeds, too")
        parser.add_argument("--user", metavar="NAME", help="who follows feeds by it")
        parser.add_argument("--days", type=float, help="how long it is in force; default: until it is switched off")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["days"]
        if days is not None and not 0 < days <= MOST_DAYS:
            raise CommandError(f"--days is more than 0, and at most {MOST_DAYS:,}.")
        expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
        with failing_clearly("No token was issued."):
            row = ApiToken(
                name=options["name"],
                layers=" ".join(options["layers"]),
                may_mirror=options["mirror"],
                may_take_down=options["take_down"],
                may_manage_feeds=options["feeds"],
                user=_user(options["user"]),
                expires_at=expires_at,
            )
            issued = tokens.issue(row)
        self.stdout.write(issued.text)


def _user(name: str | None) -> User | None:
    if name is None:
        return None
    found = User.objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"There is no user “{name}”. No token was issued.")
    return found
