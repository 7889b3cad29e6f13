"""A fetcher's process: takes what is due, asks, tells everybody who wants it."""
