"""What caches of keys and values are worth: policies on traces, clusters, tiers."""
