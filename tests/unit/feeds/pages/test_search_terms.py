"""The words of a search: how they are read, and how they are written for each index."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.errors import PageQueryError
from feeds.pages.search_terms import MAX_SEARCH_TERMS, SearchQuery, SearchTerm


def read(text: str) -> SearchQuery:
    return SearchQuery.read("q", text)


def test_words_phrases_fields_and_exclusions_are_told_apart() -> None:
    found = read('Deep title:"The Sea" -ship* feed:a-b -feed:c author:ann')
    assert found.required == (
        SearchTerm(("deep",)),
        SearchTerm(("the", "sea"), "title"),
        SearchTerm(("ann",), "author"),
    )
    assert found.excluded == (SearchTerm(("ship",), is_beginning=True),)
    assert (found.feeds, found.excluded_feeds) == (("a-b",), ("c",))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        *(
            ("wi-fi", ("wi", "fi")),
            ("C++", ("c",)),
            ("a:b", ("a", "b")),
            ("Ärzte", ("arzte",)),
            ("STRASSE", ("strasse",)),
        ),
        *(("Straße", ("strasse",)), ("“deep sea”", ("deep", "sea")), ("ёлка", ("ёлка",)), ("東京", ("東", "京"))),
        *(("https://a.example/x", ("https", "a", "example", "x")), ("x😀y", ("x", "y")), ("--deep", ("deep",))),
    ],
)
def test_signs_part_words_and_accents_do_not_count(text: str, tokens: tuple[str, ...]) -> None:
    terms = read(text)
    assert (*terms.required, *terms.excluded)[0].tokens == tokens


@pytest.mark.parametrize(
    ("text", "word"),
    [
        *(('"deep sea', "quotation mark"), ("title:", "title:"), ("title: sea", "title:"), ('tag:""', "tag:")),
        *(("feed:", "feed:"), ("feed:*", "feed:"), ("ab*", "at least 3"), ("&", "only signs"), ("-", "only signs")),
        *(("x" * 201, "200 characters"), ("ß" * 101, "200 characters"), ("title:x " + "ﬃ" * 70, "200 characters")),
        *(("\ud800", "UTF-8"), ("\ufffd", "UTF-8")),
        (" ".join(map(str, range(MAX_SEARCH_TERMS + 1))), "10 words"),
    ],
)
def test_a_search_that_cannot_be_read_is_refused_with_the_reason(text: str, word: str) -> None:
    with pytest.raises(PageQueryError, match=word):
        read(text)


def test_an_empty_search_has_no_terms() -> None:
    assert read("  ") == SearchQuery((), (), (), (), "")


def test_a_search_for_each_index() -> None:
    found = read('deep title:"the sea" -ship*')
    assert found.match() == '("deep" AND title : "the sea") NOT ("ship"*)'
    assert found.tsquery() == "('deep') & ('t:the' <-> 't:sea') & !('ship':*)"
    assert found.loose_tsquery([7]) == "('deep') & ('t:the' & 't:sea') & ('f:7') & !('ship':*)"
    assert read("-ship").match() == '("\ue000") NOT ("ship")'
    assert read("-ship").tsquery() == "'e:' & !('ship')"
    assert read('-"a ship"').loose_tsquery() == "'e:'"  # less would leave out entries with both words apart


@given(st.text(st.characters(codec="utf-8") | st.sampled_from('"*:- '), max_size=60))
def test_a_search_has_one_spelling_and_nothing_of_it_is_syntax_of_an_index(text: str) -> None:
    try:
        found = read(text)
    except PageQueryError:
        return
    assert read(found.written) == found
    for term in (*found.required, *found.excluded):
        assert all(token.isalnum() for token in term.tokens)
