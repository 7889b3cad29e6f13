"""`manage.py create_token NAME`: issues a token for the API, and prints it once."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from resources.tokens import auth
from resources.tokens.models import ApiToken

from ..cli import SiteCommand, fail_clearly

MAX_DAYS = 36_500


class Command(SiteCommand):
    help = (
        "Issues a token for the API, with the rights that are named and no others. It is printed once, and not stored."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the user or program")
        parser.add_argument(
            "--layers", nargs="+", default=[], metavar="SLUG", help="allow changing these layers; '*': all layers"
        )
        parser.add_argument("--mirror", action="store_true", help="allow mirroring files")
        parser.add_argument("--take-down", action="store_true", help="allow taking mirrored files down")
        parser.add_argument("--feeds", action="store_true", help="allow managing feeds")
        parser.add_argument("--user", metavar="NAME", help="the user who follows feeds by it")
        parser.add_argument("--days", type=float, help="days until it expires; default: never")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["days"]
        if days is not None and not 0 < days <= MAX_DAYS:
            raise CommandError(f"--days is more than 0, and at most {MAX_DAYS:,}.")
        expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
        with fail_clearly("No token was issued."):
            row = ApiToken(
                name=options["name"],
                layers=" ".join(options["layers"]),
                may_mirror=options["mirror"],
                may_take_down=options["take_down"],
                may_manage_feeds=options["feeds"],
                user=_find_user(options["user"]),
                expires_at=expires_at,
            )
            issued = auth.issue_token(row)
        self.stdout.write(issued.text)
        self.stderr.write(row.describe_rights(), style_func=str)  # not among what scripts read


def _find_user(name: str | None) -> User | None:
    if name is None:
        return None
    found = User.objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"There is no user “{name}”. No token was issued.")
    return found
