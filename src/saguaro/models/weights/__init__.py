"""Tensors from files: lazily, one by one, under the names of the safetensors layout, and strictly.

`source.py` says what every reader offers, `names.py` which tensors a configuration must have, `safetensors.py`,
`gguf_header.py` and `gguf.py` read the two formats. Nothing here packs or computes; only a tensor that is read imports
torch.
"""
