"""Layers in the storage and the database: put into service, updated, expired, loaded. Draws nothing."""
