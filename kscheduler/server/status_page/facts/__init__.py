"""What the page shows, read from cache, queue and counters: plain values, without HTML and without I/O."""
