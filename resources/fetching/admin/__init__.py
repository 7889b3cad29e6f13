"""The admin of fetching: domains, headers for hosts, timings."""
