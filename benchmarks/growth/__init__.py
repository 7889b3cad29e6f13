"""The cost of growing work, as figures and as pictures for the documentation."""
