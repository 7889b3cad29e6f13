"""How what is searched for is compared with what entries say. PURE."""


def folded(text: str) -> str:
    """A text as it is compared: without case, with single spaces, and without NUL, which databases refuse."""
    return " ".join(text.replace("\0", " ").casefold().split())
