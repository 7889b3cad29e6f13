"""Reported lists of URLs: taken in, settled URL by URL, and announced to a webhook at the end.

Public: `report` (report_urls, ReportResult, errors), `classify` (UrlDecision), `batches` (SentList, progress,
settling), `webhooks` (calls, secrets), `bulk` (BulkIngest, read_url_lists).
"""
