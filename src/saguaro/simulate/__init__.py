"""What would happen: Algorithm 1 on a virtual clock, and recorded rounds under other policies and budgets.

The very functions of `algorithm` decide here, too. Reading order:

    curves       what recorded rounds say of a pair
    replay       recorded rounds under any policy and budget, in lockstep
    shapes       sizes of models from their config.json
    hardware     data sheets
    costs        seconds of a pass by its rows: from a roofline, or from a calibration profile
    pairs        what target and draft do: laws that are drawn from, or recorded texts
    clock        AR, SD and SSD, round by round, on a virtual clock
    drafting     the draft's side of that clock: steps of all branches, as the paper has them
    engine_run   this engine on a virtual clock: what it learns, waits for and proposes
    passes       its draft: which rows a pass runs, and how both devices slow one another
    published    the numbers of the paper
    paper        costs and laws fitted to them

Must not know: models, engines, real clocks, torch. Tests: tests/simulate/.
"""
