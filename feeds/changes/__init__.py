"""The change log: what programs that keep a copy of the entries have to know, in the order in which it came.

Public: `log` (select_changes, select_arrivals), `numbers` (number_changes and the notes of writers), `positions`
(ChangeCursor).
"""
