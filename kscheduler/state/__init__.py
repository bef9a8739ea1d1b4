"""What the scheduler knows: cache, queue, waiting pods. Pure state: no I/O, no await, no clock of its own.

Every method is synchronous, so under asyncio each is atomic and there is nothing to lock. Time comes in as an argument.
"""
