"""What another configuration would have made of the same days.

free_run          a scheduler that decides by itself while what came from outside happens as recorded
claims_of_run     claims to devices in such a run: which of them are as recorded
run_measurements  what came of a run, in numbers
comparing         the recorded configuration against another one, both run in the same way
"""
