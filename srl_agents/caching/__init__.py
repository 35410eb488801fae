"""KV caches: block hashes, eviction policies, replay of request traces, a model of clusters.

Numpy and the standard library alone, because the policies also run inside a serving engine.
"""
