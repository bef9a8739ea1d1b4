"""Deciding a recording again.

recorded_configuration  the configuration of a recording, and the plugins that go with it
replayed_scheduler      an `Assembly` that takes the recorded steps, without an event loop
service_steps           what the service's tasks do around the scheduler, one step at a time
ports_of_replay         what the scheduler is connected to: recorded objects, and a journal that collects
comparing               recorded outcome against replayed outcome, in words
pod_decisions           what a recording says of one pod; nothing is decided again
replay                  segments of a run in order; what came of it
"""
