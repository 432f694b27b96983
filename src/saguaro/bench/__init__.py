"""Measuring: AR, SD and SSD on the same prompts, interleaved, into one record.

`settings.py` says what is measured, `run.py` runs it, `figures.py` makes the numbers of one run, `machine.py` says what
it ran on. Records are read and summarised by `saguaro.records`. Tests: tests/bench/.
"""
