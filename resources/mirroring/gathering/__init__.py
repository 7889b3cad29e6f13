"""From wanted URLs to stored files: fed to the fetchers, spared where it can be, fetched once."""
