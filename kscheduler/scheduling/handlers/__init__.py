"""What the informers say, object by object, in the words of cache, counters and queue."""
