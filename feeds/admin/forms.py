"""Forms of feeds: one to add, which needs no more than an address; one to change. Secrets are written, never shown."""

from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from resources.fetching.keeping import hosts

from .. import addresses
from ..addresses import Address
from ..errors import AddressError
from ..keeping import places
from ..keeping.editing import Edit
from ..models import ALL, RESERVED_SLUGS, Category, Feed

MOST_HEADERS = 20
NO_FIELD = "A header is a line of its own, as “Name: value”."


class FeedForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """What both have in common: an address, and what is shown to its server."""

    password = forms.CharField(
        required=False,
        strip=False,
        max_length=addresses.MOST_PASSWORD_CHARACTERS,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password", "size": 40}),
    )
    headers = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 60, "autocomplete": "off"}),
        help_text="A line for each, as “X-Key: …”. They are sealed, and never shown again.",
    )

    class Meta:
        model = Feed
        fields = ("url", "title", "categories", "user", "least_seconds", "most_seconds")

    address: Address | None = None
    """What the form says of where the feed is, once it is clean."""
    gives_user = False

    def clean_categories(self) -> QuerySet[Category]:
        """Without the one that has every feed anyway."""
        chosen: QuerySet[Category] = self.cleaned_data["categories"]
        return chosen.exclude(slug=ALL)

    def clean_headers(self) -> dict[str, str]:
        """The fields by their names, none of them twice."""
        found: dict[str, str] = {}
        for line in filter(str.strip, self.cleaned_data["headers"].splitlines()):
            name, colon, value = (part.strip() for part in line.partition(":"))
            if not colon or not name or not value:
                raise ValidationError(NO_FIELD)
            if problem := hosts.problem_with(name, value):
                raise ValidationError(f"It cannot be sent: {problem}.")
            if name.lower() in {known.lower() for known in found}:
                raise ValidationError(f"{name} stands there twice.")
            found[name] = value
        if len(found) > MOST_HEADERS:
            raise ValidationError(f"A feed has {MOST_HEADERS} headers at the most.")
        return found

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "url" in cleaned and "user" in cleaned and "password" in cleaned:
            self._clean_address(cleaned)
        least, most = cleaned.get("least_seconds"), cleaned.get("most_seconds")
        if least and most and least > most:
            self.add_error("most_seconds", "This is less than the least time between two checks.")
        return cleaned

    def _clean_address(self, cleaned: dict[str, Any]) -> None:
        """What stands before the host is taken for user and password. No other feed is there."""
        try:
            given = addresses.read(cleaned["url"])
        except AddressError as error:
            self.add_error("url", str(error))
            return
        try:
            user, password = cleaned["user"] or given.user, cleaned["password"] or given.password
            self.address = addresses.with_user(given.url, user, password)
        except AddressError as error:
            self.add_error("user", str(error))
            return
        self.gives_user = bool(given.user) or "user" in self.changed_data
        cleaned |= {"url": self.address.url, "user": user, "password": password}
        if password and not user:
            self.add_error("user", "A password belongs to a user.")
        other = Feed.objects.filter(key_digest=self.place.key_digest).exclude(pk=self.instance.pk).first()
        if other is not None:
            self.add_error("url", f"This feed is there already: “{other.slug}”.")

    @property
    def place(self) -> Address:
        """Where the feed will be, with the user that goes there with it."""
        assert self.address is not None
        return self.address


class AddForm(FeedForm):
    """A new feed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "url" in self.fields:
            self.fields["url"].help_text = "Of the feed, or of a web page: the likeliest of its feeds is taken then."


class ChangeForm(FeedForm):
    """A feed that is there. What was stored of secrets stays where nothing is typed.

    What was not changed in the form stays as it is by now: a feed may have moved while the form was open.
    """

    forget_headers = forms.BooleanField(required=False, label="Forget the stored headers")

    class Meta:
        model = Feed
        fields = ("slug", *FeedForm.Meta.fields, "is_hidden")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in set(self.fields) & set(self.Meta.fields):
            self.fields[name].show_hidden_initial = True
        if "password" in self.fields and self.instance.sealed_password:
            self.fields["password"].help_text = "A password is stored. Empty: it stays, for as long as there is a user."
        if "headers" in self.fields and self.instance.sealed_headers:
            self.fields["headers"].help_text = "Headers are stored, and never shown again. Empty: they stay."

    def clean(self) -> dict[str, Any]:
        stands = Feed.objects.only("url", "user").get(pk=self.instance.pk)
        unchanged = {"url", "user"} & self.cleaned_data.keys() - set(self.changed_data)
        self.cleaned_data |= {name: getattr(stands, name) for name in unchanged}
        return super().clean()

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug in RESERVED_SLUGS:
            raise ValidationError(f"“{slug}” stands in addresses of combinations.")
        return slug

    @property
    def place(self) -> Address:
        """A user that was not typed anew stays behind when the server is another one."""
        address = super().place
        if self.gives_user:
            return address
        moved = places.moved(Feed.objects.only("url", "user").get(pk=self.instance.pk), address.url)
        return replace(moved, password=address.password)

    @property
    def edited(self) -> Edit:
        """What is to be changed."""
        cleaned = self.cleaned_data
        headers = cleaned["headers"] or ({} if cleaned["forget_headers"] else None)
        plain = ("slug", "title", "least_seconds", "most_seconds", "is_hidden")
        fields = {name: cleaned[name] for name in plain if name in self.changed_data}
        return Edit(self.place, headers, fields)


class CategoryForm(forms.ModelForm):  # type: ignore[type-arg]
    """A category. It stands in no other that stands in it."""

    class Meta:
        model = Category
        fields = ("title", "slug", "parent")

    def clean_parent(self) -> Category | None:
        parent: Category | None = self.cleaned_data["parent"]
        if parent is not None and parent.slug == ALL:
            return None  # everything stands in it
        above = parent
        while above is not None and self.instance.pk:
            if above.pk == self.instance.pk:
                raise ValidationError("It would stand in itself.")
            above = above.parent
        return parent

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug in RESERVED_SLUGS and slug != self.instance.slug:
            raise ValidationError(f"“{slug}” is the one that has every feed.")
        return slug
