"""What the admin says of URLs and files, in words. PURE."""

from datetime import datetime

from resources.words import ago

_FAILURES = {
    "permanent": "It is not there, or not what it was: it is not asked for again.",
    "transient": "Its server failed each time.",
    "throttled": "Its server let nothing through for too long.",
    "postponed": "It redirects to a host that is left alone.",
    "ours": "This site failed, not its server.",
    "refused": "It leads to an address that is not fetched.",
    "too big": "It is larger than what is fetched.",
    "too slow": "It came too slowly.",
    "expired": "The signature in its address has run out: it has to be reported with a new one.",
    "blocked": "An admin has blocked its host.",
    "taken down": "Its file was taken down: it is not fetched again.",
}

_STEPS = {
    "known": "It was known.",
    "redirect": "It redirects to a URL that was known: its body was not downloaded.",
    "validators": "Its origin vouched for a content that was known: its body was not downloaded.",
    "unchanged": "It was fetched again, and had not changed.",
    "content": "It was downloaded, and gave the same bytes as a file that was known.",
    "new": "It was downloaded and stored as a new file.",
}


def why(
    *, state: str, step: str, failure: str, attempts: int, due_at: datetime | None, detail: str, now: datetime
) -> list[str]:
    """Sentences about how a URL stands, the most important first."""
    if state == "failed":
        said = [_FAILURES.get(failure, "It could not be fetched.")]
    elif state == "stored":
        said = [_STEPS.get(step, "It is stored.")]
    else:
        said = [_waits(due_at, now)]
        if attempts:
            said.append(f"{attempts:,} {'attempt' if attempts == 1 else 'attempts'} so far.")
    if detail and state != "stored" and _sentence(detail) not in said:
        said.append(_sentence(detail))
    return said


def _waits(due_at: datetime | None, now: datetime) -> str:
    if due_at is None:
        return "It waits, and nobody has said until when."
    if due_at > now:
        return f"It is tried again {ago(due_at, now)}."
    return "It is being fetched, or waits for its turn."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
