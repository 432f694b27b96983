"""Models: files in, hidden states and logits out. Speculation-blind.

Read in this order: `config.py` (what a model is), `checkpoint.py` (where it comes from), `weights/` (its tensors),
`causal_lm.py` (what every model offers), `decoder.py` (how it computes, over the operations of `layers/`), `build.py`
(from a checkpoint to a running model), `tokenizer.py`, `chat.py` and `text.py` (from words to ids and back), `toy.py`
(models without files).

Plug points: `families/` (architectures) and `layers/` (arithmetic). Importing this package imports no torch.
Tests: tests/models/, tests/conformance/test_models.py.
"""

from saguaro.models.families import FAMILIES

__all__ = ["FAMILIES"]
