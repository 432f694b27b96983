"""Distilling a draft for a target (docs/drafts.md), in reading order.

`settings.py` what is asked; `folder.py` what an interrupted run leaves. Data: `texts.py` (the target writes),
`laws.py` (the target's law at every position is kept), `corpus.py` (both, packed into rows). Model: `student.py` (the
decoder as trainable torch modules), `start.py` (its layers taken from another model), `draft_vocabulary.py`. Training:
`loss.py`, `curve.py` (acceptance by position), `saved.py`, `loop.py`. Result: `export.py`; `run.py` is all of it in
order. Must not know: the command line. Tests: tests/training/.
"""
