"""Before buying: what AR, SD and SSD promise for models, hardware and traffic that need not be there.

    question     what is asked: models, hardware, traffic, laws of the pair
    predict      one placement and setting: closed forms of `theory` over costs of `simulate`
    search       all sensible placements, each at its best setting, compared at equal numbers of devices
    advice       how sure that is, where SSD breaks even, and what would help most
    picture      the comparison as a picture

No torch, no models, no clocks. Tests: tests/planner/.
"""
