-- Notes that a fetcher claims no more: others own its domains at once. Its requests in flight go on.
-- needs: retry.gathered domain owners line network spread
-- ARGV: rules fetcher   -> 1
forget_fetcher(ARGV[2])
spread_parts()
wake()
return 1
