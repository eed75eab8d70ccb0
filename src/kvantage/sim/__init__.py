"""A serving engine in miniature, in virtual time: scheduler, paged pool, prefix cache, speculation.

It computes no token. What it says of queues, hits, retractions and times is simulated, and named so.
"""
