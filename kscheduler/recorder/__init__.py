"""The flight recorder: what came in and what was decided, in a file that can be decided again.

    recording    FlightRecorder hears each step on the event loop (`scheduling.attempt_events`) and keeps a tuple of it
                 SegmentThread compresses them and has a thread write; it rotates, and keeps within the directory's size
    file         blocks with checksums in segments; each segment begins with a snapshot and can be read alone
    snapshots    cache, queue and preemptions as they are at one moment, and the way back
    replaying    the same `Assembly` takes the same steps; its decisions are compared with the recorded ones

Limits: what plugins fetch by themselves (`refresh`), what extenders answer and what devices are found in the background
is not in the file. Such decisions are followed and not judged, and the answer says how many, and because of whom.
"""
