"""All outgoing HTTP: the only code that talks to other people's servers."""
