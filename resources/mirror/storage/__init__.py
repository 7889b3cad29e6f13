"""The bytes of mirrored files: stored by digest, uploaded, pruned, swept, taken down.

Public: `retention` (accesses, lost bytes, pruning), `takedown`, `uploads` (StorageUpkeep of a fetcher), `sweeper`
(Celery tasks); within `resources.mirror` also `blobs` (keep, open and remove
bytes), `small_files` (keep many at once) and `held_files` (those of other machines).
"""
