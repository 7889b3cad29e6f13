"""Tests of mirrored files."""
