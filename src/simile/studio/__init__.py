"""The studio: a page on this machine for working live, from a data file to a policy, and the server behind it.

`simile studio` starts it. Trainings are child processes, `simile train`, and what they write to their folders is what
the page shows: a crash of the server, or of a training, loses nothing.
"""
