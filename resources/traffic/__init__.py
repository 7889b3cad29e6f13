"""Traffic: reads the front's log into counts of requests and into popularity.

Public: `asked` (Asked), `counter` (read_traffic, requests_registry, check_traffic), `log_files` (rotation, for
supervisord), `prepared` (requests that found content which pre-warming had prepared).
"""
