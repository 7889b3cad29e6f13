"""`python with_reader.py DATABASE WORKERS`: the addresses in standard input, fetched by PyPI's `reader`."""

import sys

from reader import make_reader

if __name__ == "__main__":
    reader = make_reader(sys.argv[1])
    for url in sys.stdin.read().split():
        reader.add_feed(url)
    print("begins", flush=True)
    reader.update_feeds(workers=int(sys.argv[2]))
