-- Notes that a fetcher is alive. Fetchers silent for a whole lease are forgotten, and others own their domains.
-- needs: retry.gathered domain owners line network spread
-- ARGV: rules fetcher machine egresses   -> 1
sign_in(ARGV[2], ARGV[3], ARGV[4])
wake()
return 1
