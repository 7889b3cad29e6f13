"""What is kept of feeds in the database: how they come in, move, are followed, and go."""
