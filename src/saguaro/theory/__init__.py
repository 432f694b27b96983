"""Appendix A in numbers: formulas over floats, with no tensors and no models.

Reading order, and where each statement of the paper lives:

    acceptance   Theorem 1; the law of the number accepted; expected tokens of a round
    speedup      Theorem 7; Corollaries 8, 9 and 16; the hit rate of a chain of rounds; bound and break-even
    fan_out      Definition of the power law; Theorem 12 (closed form); Theorem 18 (any curve, whole numbers)
    fallback     Theorem 17 and what it leaves out
    chain        Theorem 7 for any kinds of rounds: the law that they settle in
    branches     p_hit from fan-out and curves; depth below K; branches that take time
    rows         Corollary 16 when only the missed rows are drafted anew
    accounting   Appendix C: draft tokens, operations, cache and wire
    fit          acceptance and power law from counts of rounds
    step_times   the time of a pass between and beyond the counts of rows that were measured
    rates        tokens a second of AR, SD and SSD by measured times
    tree_rates   chains against proposal trees, by the same
    evidence     acceptance and hit curves while rounds are seen
    bootstrap    how sure a difference of two rates is

Times are in units of one verification (T_p, T_b) unless a name ends in `_seconds`. p is the target's law, q the
draft's. Must not know: torch, engines, clocks. Tests: tests/theory/. The map: docs/paper-map.md.
"""
