"""What a model family must say about itself: which files it recognises and where it departs from plain Llama.

Everything else (pre-norm blocks, gated SiLU, rotated halves, grouped heads) is the same in all members and lives in
`models/decoder.py`. Must not know: tensors, files. Tests: tests/conformance/test_models.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """One row of the family table.

    Args:
        name: our name for the family, also its `general.architecture` in GGUF files.
        hf_architectures: entries of `architectures` in config.json.
        qkv_bias: the q, k and v projections carry a bias (o never does).
        qk_norm: RMSNorm of length head_dim on every head of q and k, before rotation.
        default_head_dim: head size when config.json is silent; None is hidden / heads.
        gguf_permuted: rows of q and k in GGUF files are reordered to interleaved pairs and must be put back.
    """

    name: str
    hf_architectures: tuple[str, ...]
    qkv_bias: bool = False
    qk_norm: bool = False
    default_head_dim: int | None = None
    gguf_permuted: bool = False
