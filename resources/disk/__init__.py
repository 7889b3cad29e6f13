"""The bound of this machine's disk (DISK_MAX_BYTES): shares of its parts, their measurement, room for new bytes.

Public: `room` (takes room, as the settings say), `account` (the file of mirrored bytes that all processes share),
`meter` (measures the parts), `shares` (divides the bound). Only `room` imports Django: supervisord has the others in
memory.
"""
