"""The admin of mirrored files.

Public: `batches`, `hosts_rules`, `mirrored_files`, `resources`: importing them registers their pages.
"""
