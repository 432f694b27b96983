"""What a draft must promise: for any context, ranked candidates and, when asked, the law they were drawn from.

`drafters/` is the plug point of kinds of drafts, `fallbacks/` of answers to a miss (Section 4.3). Must not know:
rounds, processes, clocks.
"""
