"""The demo's feeds: well-known ones, and samples of this site's own where the machine has no way out."""
