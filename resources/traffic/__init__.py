"""Traffic: reads the front's log into counts of requests and into popularity.

Public: `asked` (Asked), `counter` (read_traffic, requests_registry), `log_files` (rotation, for supervisord), `checks`,
`prepared` (requests that found content which pre-warming had prepared).
"""
