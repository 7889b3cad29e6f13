"""Prepares content before anybody asks for it: what there is to do, in which order, at what cost, and doing it."""
