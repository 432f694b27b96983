"""Sections 3 and 4 as pure functions: no config, clock, device, generator or global enters here.

Randomness arrives as numbers made from keys, so the engine, the simulator and the tests that enumerate every path
call the very same functions. Reading order:

    terms               outcome, proposal and the law it was drawn from
    noise               numbers from keys: the hash, Gumbel noise, keyed uniforms
    ranking             the best entries of a row, exact in ties
    sampling            logits -> scores -> law; drawing a token by noise or from a law
    agreement           verification by shared noise: integers alone
    verify              verification by rejection (DESIGN D1), the residual law
    proposal_tree       Appendix E: a proposal with several guesses of a token; the best of N nodes
    siblings            a chain with other guesses of its places, and the outcomes of such a tree
    verify_tree         its verification: a walk, or one sibling after another
    saguaro_sampling    Section 4.2
    outcomes            Section 4.1: which outcomes to prepare, given the counts of a fan-out policy
    odds                how likely each outcome is by the draft's own scores (DESIGN D8)
    fan_out/            the policies (a plug point)
    cache               the speculation cache of one request
    fallbacks           Section 4.3: proposals that need no draft model
    suffix_index        where a text has ended like this before: what one of them looks up
    hints               whether what it finds is worth a row in the draft's next pass
    waiting             how long a covered outcome is worth waiting for (DESIGN D3)
    choosing_fallback   Section 4.3: which answer pays most, for a whole batch at once (DESIGN D9)
    misses              why an outcome was not in the cache
    rounds              a round that has ended, for replay and calibration
    tree                who sees whom while branches grow (DESIGN D7)
    reference           Algorithm 1 executed for one sequence: the oracle
    reference_trees     the same for proposal trees

Shape letters: B rows, R rows of logits, K lookahead, J = K + 1, V vocabulary, N branches, S slots of a suffix.
p is the target's law, q the draft's. Tests: tests/algorithm/.
"""
