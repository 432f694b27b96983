"""A batch in, logits out (DESIGN floor 6). Knows nothing of drafts, outcomes and requests.

`batch.py` packs spans of tokens into one call, `kv_pool.py` holds keys and values, `runner.py` runs the model,
`sampler.py` draws the target's tokens. Tests: tests/execution/.
"""
