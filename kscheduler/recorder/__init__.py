"""The flight recorder: what came in and what was decided, in a file that can be decided again.

    flight_recorder  hears each step on the event loop (`scheduling.attempt_events`) and keeps a tuple of it (`entries`)
    segment_thread   compresses and writes them in a thread; rotates, and keeps within the directory's size
    segments         the files: each begins with a snapshot and can be read alone; made of `blocks` with checksums
    snapshot         cache, queue and preemptions as they are at one moment; `restored_state` is the way back
    redaction        names and values replaced by pseudonyms, for a recording that leaves the house
    replaying        the same `Assembly` takes the same steps; its decisions are compared with the recorded ones
    alternatives     the same days under another configuration
    report           what a replay found, as text and JSON

Limits: what plugins fetch by themselves (`refresh`), what extenders answer and what devices are found in the background
is not in the file. Such decisions are followed and not judged, and the answer says how many, and because of whom.
"""
