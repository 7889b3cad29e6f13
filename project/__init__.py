"""The wiring: settings, processes, URLs. Holds no logic of the site."""
