"""The canonical URL: the key under which a mirrored file is stored. PURE.

Public: `urls` (canonicalise_url, candidate_digests, find_surest, find_surest_digest, strip_secrets); within
`resources.mirror` also `rules`, `clearurls` (reads the settings and the file of rules), `rule_learner`.
"""
