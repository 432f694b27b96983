"""What would have happened: recorded rounds under other policies and budgets, by the very functions of `algorithm`.

Must not know: models, engines, clocks. Tests: tests/simulate/.
"""
