"""The paper's Figures 3 to 7 again: what is published, and what the simulator makes of the same hardware.

    series      the numbers of each figure, published and simulated
    saguaro_c   Figure 5's trade-off by exact sums over made-up laws
    draw        numbers in, pictures out

Records of our own runs have their picture in `bench/frontier.py`. Tests: tests/figures/.
"""
