-- Queues one piece of work again.
-- needs: root turns claim_skip lane_rounds claim_return
-- KEYS: root   ARGV: work token wait_ms default_ms nonce   -> 1 | 0
return requeue_work(ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5])
