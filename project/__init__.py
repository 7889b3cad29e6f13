"""The wiring: settings, processes, URLs, nginx. Holds no logic of the site, and is imported by no other package."""
