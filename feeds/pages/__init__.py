"""Composes pages of feeds and of combinations, in all formats, from stored entries. Knows no HTTP.

Public: `query` (PageQuery), `render` (prepare_page, page_hubs), `page_entries` (subjects, origins, entries of a page),
`change_page` (changes as programs get them), `search_terms` (the words of a search), `entry_search` (choose_matches),
`entry_filters` (find_hidden, narrow_search, narrow_page), `work` (the work of fetching a feed and rendering its pages).
"""
