"""The guarded HTTP client: requests go out, answers come in. Knows of no queue.

Public: `messages` (FetchRequest, FetchLimits, outcomes, FetchError), `url_syntax` (parse_target, find_url_expiry,
FetchRoute), `limit_scopes` (url_scopes), `compression` (GzipDecoder), `allowed_ips`; within `resources.fetch` also
`client`, `deadlines`, `retry_policy`.
"""
