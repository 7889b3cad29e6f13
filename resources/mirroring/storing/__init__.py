"""Where the bytes of mirrored files are: kept, uploaded, lost, pruned, taken down, swept."""
