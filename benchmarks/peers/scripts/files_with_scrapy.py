"""`python files_with_scrapy.py FOLDER AT_ONCE PER_HOST`: the files in standard input, by Scrapy's files pipeline."""

import sys
from collections.abc import AsyncIterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Files(scrapy.Spider):  # type: ignore[misc]
    """Has each stored; reads nothing itself."""

    name = "files"
    urls: list[str]

    async def start(self) -> AsyncIterator[dict[str, Any]]:
        for url in self.urls:
            yield {"file_urls": [url]}


if __name__ == "__main__":
    settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": sys.argv[1],
        "CONCURRENT_REQUESTS": int(sys.argv[2]),
        "CONCURRENT_REQUESTS_PER_DOMAIN": int(sys.argv[3]),
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }
    process = CrawlerProcess(settings)
    process.crawl(Files, urls=sys.stdin.read().split())
    process.start()
