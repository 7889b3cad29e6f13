"""The fetcher's process: it claims due jobs, fetches, and settles the claims that wait.

Public: for the command `fetch` alone: `engine`, `attempt` (AttemptRunner, EgressClients), `held_claims` (RedisTrips),
`counts` (write_forever), `timers` (WakeListener).
"""
