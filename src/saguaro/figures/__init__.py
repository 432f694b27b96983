"""The paper's Figures 3 to 7 again: what is published, what the simulator makes of it, and what this engine measured.

    series      the numbers of each figure, published and simulated
    saguaro_c   Figure 5's trade-off by exact sums over made-up laws
    measured    the same figures from records of this engine
    draw        numbers in, pictures out

The picture of one record is in `bench/frontier.py`. Tests: tests/figures/.
"""
