"""API tokens: their rows, and the check of a request's token.

Public: `auth` (Token, issue_token, require_layer, require_mirroring, require_taking_down), `models` (ApiToken).
"""
