"""The admin of fetching: domains, headers for hosts, timings.

Public: `domains` and `forms` for the admin, `domain_page` (read_domain_report).
"""
