"""Splits texts into the words that searches go by, those of entries and those that are searched for.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
import unicodedata

MAX_WORD_CHARACTERS = 100
"""Longer words are cut."""
PART_END = "\ue000"
"""Between the parts of a searchable text: no phrase goes from one into the next."""


def split_parts(text: str) -> list[str]:
    """Splits a searchable text into the title, the names and the texts of its entry."""
    return text.split(PART_END)


_LATIN_MARKS = re.compile("([a-z])[\u0300-\u036f]+")
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff])"
)
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""


def split_words(text: str, *, by_letter: bool = True) -> list[str]:
    """Splits a text into the words that searches compare: without case, and Latin letters without accents.

    With `by_letter`, each letter of a script without spaces is a word: a word of several is found as a phrase.
    """
    folded = text.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFC", _LATIN_MARKS.sub(r"\1", unicodedata.normalize("NFD", folded)))
        folded = _UNSPACED.sub(r" \1 ", folded) if by_letter else folded
    return [word[:MAX_WORD_CHARACTERS] for word in _WORD.findall(folded)]


def is_unspaced(text: str) -> bool:
    """Tells whether there are letters of a script without spaces."""
    return _UNSPACED.search(text) is not None


def fold_text(text: str) -> str:
    """Folds a text: no case, single spaces, no NUL, which databases refuse."""
    return " ".join(text.replace("\0", " ").casefold().split())
