"""The deferral protocol: serves cached content at once, and prepares missing content once while the client waits.

Imports nothing from outside this package but libraries: other projects copy the folder.

Public: `deferral` (serve_or_defer, deliver_or_defer, find_answer, public_url), `worker` (prepare), `work`, `contents`,
`errors`, `responses`, `headers`, `stores`, `servers`, `server_urls`, `scripts`, `records`, `claims`, `claim_state`,
`decision`, `lanes`, `check_names`, `metrics`, `routes`, `popularity`, `conf`, `subscription` (listen_forever),
`rooms` (FrontClient), `streams` (EventSource), `lane_worker` (LaneWorker).
"""
