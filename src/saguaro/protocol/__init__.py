"""What target and draft may say to each other, and when (DESIGN D3).

    target                                                draft
      │  Admit(request, tokens, sampling)                   │   learns the row, prefills it
      │ ───────────────────────────────────────────────────▶│
      │  entries of round 0: key (0, t₀) → tokens           │
      │ ◀─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─│   pushed as drawn, depth by depth
      │  Outcome(r, k, t*, source, tokens of r + 1)         │   the truth for both sides
      │ ───────────────────────────────────────────────────▶│
      │  Outcome(r, …, pending) … Taken(r, tokens)          │   when the target waits for more
      │ ───────────────────────────────────────────────────▶│
      │  Release(request)                                   │

`messages.py` holds the values and their bytes, `session.py` the table of legal transitions. Must not know: how bytes
move, models, clocks. Tests: tests/protocol/.
"""
