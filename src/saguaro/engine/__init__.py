"""Two workers, their loops, processes and clocks: all side effects live here (DESIGN floor 8).

    interface.py  what the faces talk to: submit, poll, abort, configure, close;  engine.py  the two engines
    launch.py     starts worker processes and ends them;  supervise.py  watches the draft;  worker.py  their main
    target.py     the verifier's round (Algorithm 1, lines 5-13);  sequence.py  its rows;  scheduler.py  who runs
    draft.py      the speculator's step (Algorithm 1, lines 14-26);  draft_row.py  its rows and branches
    resolve.py    what the machine allows;  adapt.py  settings from measured times;  metrics.py  running estimates
    proposing.py  between two rounds;  choosing.py  which way each row goes;  answers.py  what answers were worth
    predicting.py which outcomes are prepared for;  from_profile.py  what a calibration says
    gears.py      AR, SD or SSD;  shifting.py  changes between them;  placement.py  where the models run
    totals.py     counters of all requests;  round_log.py, trace.py  what happened, for people

`target.py` and `draft.py` do not import each other.
"""
