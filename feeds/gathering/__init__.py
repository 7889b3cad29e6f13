"""From feeds that are due to stored entries: chosen, put in order, handed over, fetched, read."""
