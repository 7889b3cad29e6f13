"""What work costs as there is more of it, as figures and as pictures for the documentation."""
