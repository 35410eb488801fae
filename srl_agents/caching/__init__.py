"""KV caches: block hashes, eviction policies, replay of request traces, a model of clusters.

Imports only numpy and the standard library, because the policies also run inside a serving engine.
"""
