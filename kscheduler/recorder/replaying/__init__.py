"""Deciding a recording again.

recorded_configuration  the configuration of a recording, and the plugins that go with it
replayed_scheduler an `Assembly` that takes the recorded steps, without an event loop
comparing          recorded outcome against replayed outcome, in words
replay             segments of a run in order; what came of it
"""
