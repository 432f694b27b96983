"""Plans from times: what must come out where the answer is plain."""

from saguaro.engine.adapt import plan_sd, plan_ssd


def test_a_free_draft_is_used_to_the_full_and_a_dear_one_hardly() -> None:
    flat = dict.fromkeys(range(1, 10), 1.0)
    assert plan_sd(flat, dict.fromkeys((1, 2, 4, 8), 1e-6)).lookahead == 8
    assert plan_sd(flat, dict.fromkeys((1, 2, 4, 8), 1.0)).lookahead == 1
    assert plan_ssd(flat, dict.fromkeys((1, 2, 4, 8), 1e-6)).lookahead == 8


def test_ssd_hides_the_draft() -> None:
    verify = dict.fromkeys(range(1, 10), 1.0)
    step = dict.fromkeys((1, 2, 4, 8, 16), 0.2)
    sd, ssd = plan_sd(verify, step), plan_ssd(verify, step)
    assert ssd.tokens_per_second > sd.tokens_per_second
    assert ssd.lookahead >= sd.lookahead
    assert ssd.budget >= 8  # rows are free here


def test_rows_that_cost_limit_the_budget() -> None:
    verify = dict.fromkeys(range(1, 10), 1.0)
    step = {rows: 0.1 * rows for rows in (1, 2, 4, 8, 16)}
    assert plan_ssd(verify, step).budget == 5
