"""Event handlers: they apply the informers' events to cache, counters and queue, object by object."""
