"""Two workers, their loops, processes and clocks: all side effects live here (DESIGN floor 8).

    engine.py     what the faces talk to: submit, poll, abort, configure, close
    launch.py     starts worker processes and ends them;  supervise.py  watches the draft;  worker.py  their main
    target.py     the verifier's round (Algorithm 1, lines 5-13);  sequence.py  its rows;  scheduler.py  who runs
    draft.py      the speculator's step (Algorithm 1, lines 14-27);  draft_row.py  its rows and branches
    resolve.py    what the machine allows;  adapt.py  settings from measured times;  metrics.py  running estimates

`target.py` and `draft.py` do not import each other.
"""
