"""Tells this site's own hub (WebSub) what has changed of the feeds and combinations that are served."""
