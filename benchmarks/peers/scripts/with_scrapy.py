"""`python with_scrapy.py SLOTS`: the addresses in standard input, fetched by Scrapy with AutoThrottle."""

import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess

SETTINGS = {"AUTOTHROTTLE_ENABLED": True, "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False}


class Feeds(scrapy.Spider):  # type: ignore[misc]
    """Reads each and counts its entries."""

    name = "feeds"

    def parse(self, response: Any) -> Iterator[dict[str, object]]:
        yield {"url": response.url, "entries": len(response.xpath("//item"))}


if __name__ == "__main__":
    process = CrawlerProcess({**SETTINGS, "CONCURRENT_REQUESTS": int(sys.argv[1])})
    urls = sys.stdin.read().split()
    print("begins", flush=True)
    process.crawl(Feeds, start_urls=urls)
    process.start()
