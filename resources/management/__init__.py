"""Management commands.

Public: `cli`.
"""
