"""Measuring: AR, SD and SSD on the same prompts, interleaved, into one record.

    settings   what is measured, and the engines (lanes) it takes
    arrivals   when the requests of an open loop are due
    load       the closed and the open loop
    session    requests in and out of an `LLM` one by one
    run        all of it, in turns, into a record
    figures, load_figures   the numbers of one run: of its requests; of when tokens arrived
    equality   the check that the tokens are the same in every mode
    summary, frontier       a record of loads as rows; as a picture
    machine, sizes          what it ran on; bytes of models

Records are read and summarised by `saguaro.records`. Tests: tests/bench/.
"""
