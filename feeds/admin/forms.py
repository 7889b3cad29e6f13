"""The forms of feeds and categories. Adding a feed needs only an address. Secrets are written, never shown."""

from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from resources.fetch import host_settings

from .. import addresses, lifecycle
from ..addresses import FeedLocation
from ..catalogue import FeedEdit
from ..errors import FeedAddressError
from ..models import ALL_SLUG, RESERVED_SLUGS, Category, Feed

MAX_HEADERS = 20
NOT_A_HEADER = "Enter one header per line, as “Name: value”."
ADDRESS_HELP = "Address of a feed or of a web page. The most likely feed of a web page is chosen."
STORED_HELP = "A password is stored. Leave empty to keep it; removing the user removes it."


class FeedForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """The common part of both forms of a feed: its address, and the credentials for its server."""

    password = forms.CharField(
        required=False,
        strip=False,
        max_length=addresses.MAX_PASSWORD_CHARACTERS,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password", "size": 40}),
    )
    headers = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60, "autocomplete": "off"}),
        help_text="One per line, as “X-Key: …”. Stored encrypted, never shown again.",
    )

    class Meta:
        model = Feed
        fields = ("url", "title", "categories", "user", "least_seconds", "most_seconds")
        labels = {
            "url": "Feed address",
            "least_seconds": "Minimum (seconds)",
            "most_seconds": "Maximum (seconds)",
            "is_hidden": "Hidden",
            "full_content": "Fetch full articles",
        }
        help_texts = {
            "title": "Default: the feed's own title.",
            "least_seconds": "Default: FEEDS_LEAST_SECONDS.",
            "most_seconds": "Default: FEEDS_MOST_SECONDS.",
            "is_hidden": "Excluded from combined feeds and public pages; shown only to tokens that may manage feeds.",
            "full_content": "Fetches the page of each entry whose text is an excerpt, and shows its article.",
        }

    address: FeedLocation | None = None
    """The address in the form, once the form is clean."""
    gives_user = False

    def clean_categories(self) -> QuerySet[Category]:
        """Leaves out the category that has every feed anyway."""
        chosen: QuerySet[Category] = self.cleaned_data["categories"]
        return chosen.exclude(slug=ALL_SLUG)

    def clean_headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in filter(str.strip, self.cleaned_data["headers"].splitlines()):
            name, colon, value = (part.strip() for part in line.partition(":"))
            if not colon or not name or not value:
                raise ValidationError(NOT_A_HEADER)
            if problem := host_settings.find_header_problem(name, value):
                raise ValidationError(f"The header cannot be sent: {problem}.")
            if name.lower() in {known.lower() for known in found}:
                raise ValidationError(f"{name} is given twice.")
            found[name] = value
        if len(found) > MAX_HEADERS:
            raise ValidationError(f"Enter at most {MAX_HEADERS} headers.")
        return found

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "url" in cleaned and "user" in cleaned and "password" in cleaned:
            self._clean_address(cleaned)
        least, most = cleaned.get("least_seconds"), cleaned.get("most_seconds")
        if least and most and least > most:
            self.add_error("most_seconds", "This is below the minimum interval.")
        return cleaned

    def _clean_address(self, cleaned: dict[str, Any]) -> None:
        """Takes user and password also from in front of the host. Refuses the address of another feed."""
        try:
            given = addresses.read_address(cleaned["url"])
        except FeedAddressError as error:
            self.add_error("url", str(error))
            return
        try:
            user, password = cleaned["user"] or given.user, cleaned["password"] or given.password
            self.address = addresses.address_with_user(given.url, user, password)
        except FeedAddressError as error:
            self.add_error("user", str(error))
            return
        self.gives_user = bool(given.user) or "user" in self.changed_data
        cleaned |= {"url": self.address.url, "user": user, "password": password}
        if password and not user:
            self.add_error("user", "Enter the user of this password.")
        other = Feed.objects.filter(key_digest=self.place.key_digest).exclude(pk=self.instance.pk).first()
        if other is not None:
            self.add_error("url", f"This feed already exists: “{other.slug}”.")

    @property
    def place(self) -> FeedLocation:
        """The feed's new address, with the user that goes there with it."""
        assert self.address is not None
        return self.address


class AddFeedForm(FeedForm):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "url" in self.fields:
            self.fields["url"].help_text = ADDRESS_HELP


class ChangeFeedForm(FeedForm):
    """Changes a feed. Stored secrets stay where nothing is typed.

    Fields not changed in the form keep their present values: a feed may have moved while the form was open.
    """

    forget_headers = forms.BooleanField(required=False, label="Remove stored headers")

    class Meta(FeedForm.Meta):
        fields = ("slug", *FeedForm.Meta.fields, "is_hidden", "full_content")  # type: ignore[assignment]  # three more

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in set(self.fields) & set(self.Meta.fields):
            self.fields[name].show_hidden_initial = True
        if "password" in self.fields and self.instance.sealed_password:
            self.fields["password"].help_text = STORED_HELP
        if "headers" in self.fields and self.instance.sealed_headers:
            self.fields["headers"].help_text = "Headers are stored. Leave empty to keep them."

    def clean(self) -> dict[str, Any]:
        stands = Feed.objects.only("url", "user").get(pk=self.instance.pk)
        unchanged = {"url", "user"} & self.cleaned_data.keys() - set(self.changed_data)
        self.cleaned_data |= {name: getattr(stands, name) for name in unchanged}
        return super().clean()

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug in RESERVED_SLUGS:
            raise ValidationError(f"“{slug}” is reserved for combined feeds.")
        return slug

    @property
    def place(self) -> FeedLocation:
        """The feed's new address. A user not typed anew stays behind if the server is another one."""
        address = super().place
        if self.gives_user:
            return address
        moved = lifecycle.address_after_move(Feed.objects.only("url", "user").get(pk=self.instance.pk), address.url)
        return replace(moved, password=address.password)

    @property
    def edited(self) -> FeedEdit:
        cleaned = self.cleaned_data
        headers = cleaned["headers"] or ({} if cleaned["forget_headers"] else None)
        plain = ("slug", "title", "least_seconds", "most_seconds", "is_hidden", "full_content")
        fields = {name: cleaned[name] for name in plain if name in self.changed_data}
        return FeedEdit(self.place, headers, fields)


class CategoryForm(forms.ModelForm):  # type: ignore[type-arg]
    """A category. It cannot be in itself, directly or through others."""

    class Meta:
        model = Category
        fields = ("title", "slug", "parent")

    def clean_parent(self) -> Category | None:
        parent: Category | None = self.cleaned_data["parent"]
        if parent is not None and parent.slug == ALL_SLUG:
            return None  # it has every feed anyway
        above = parent
        while above is not None and self.instance.pk:
            if above.pk == self.instance.pk:
                raise ValidationError("A category cannot contain itself.")
            above = above.parent
        return parent

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug in RESERVED_SLUGS and slug != self.instance.slug:
            raise ValidationError(f"“{slug}” is reserved for the category of all feeds.")
        return slug
