"""Parses the bytes of a feed into its entries, whatever its format and its mistakes.

Public: `reader` (parse_feed), `documents` (the values, JSON_EXTENSION), `discovery` (feeds and hubs of a web page),
`markup` (sanitising, text, addresses), `charset` (bytes to text, and text that XML parsers take), and for the child
process that reads pages `article`, `podcast` (files of chapters) and `normalise`.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""
