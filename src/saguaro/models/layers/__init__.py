"""Plug point: the arithmetic of a decoder, in interchangeable members.

`base.py` is the protocol, `torch_ops.py` plain PyTorch on any device (the oracle), `native_ops.py` the C kernels for
CPUs with packed weights. The decoder is written once, over the protocol.
"""

from saguaro.registry import Table

LAYER_OPS = Table(
    "set of layer operations",
    {
        "torch": "saguaro.models.layers.torch_ops:TorchOps",
        "native": "saguaro.models.layers.native_ops:NativeOps",
    },
)
