"""The API of feeds: what there is of them, and managing them with a token that may."""
