"""Devices by their data sheets: memory, arithmetic and links. What a sheet does not say is marked as assumed.

Rates are those of one device: bytes a second of memory, dense operations a second in bfloat16 (half of what sheets
print "with sparsity"), bytes a second of its link to its neighbours in one direction. Prices are assumptions, for a
first look; give your own. Must not know: models. Tests: tests/simulate/test_costs.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from saguaro.registry import unknown


@dataclass(frozen=True)
class Hardware:
    """One kind of device.

    Args:
        name: for people.
        memory: bytes.
        bandwidth: bytes a second from its memory.
        flops: dense operations a second.
        link: bytes a second to a neighbour, one direction.
        all_reduce: seconds of a small all-reduce between neighbours (assumed).
        hop: seconds of a small message to a neighbour (assumed).
        layer: seconds of launches and small kernels in each layer of a pass (assumed; `paper.py` fits it).
        dollars: an hour of it (assumed).
        source: where the first five numbers come from.
        together: bytes a second of all devices together where they share one memory; 0 where each has its own.
    """

    name: str
    memory: float
    bandwidth: float
    flops: float
    link: float
    all_reduce: float
    hop: float
    layer: float
    dollars: float
    source: str
    together: float = 0.0


BANDWIDTH_SHARE, FLOPS_SHARE = 0.9, 0.6
"""What large reads and large products reach of the printed rates (assumed)."""
LAYER = 70e-6
"""Between the 64 and 73 microseconds that the paper's AR speeds leave for a layer (docs/reproduction.md)."""

HARDWARE: dict[str, Hardware] = {
    "h100": Hardware(
        "H100 SXM", 80e9, 3.35e12, 989e12, 450e9, 10e-6, 10e-6, LAYER, 3.0, "NVIDIA H100 Tensor Core GPU data sheet"
    ),
    "h200": Hardware(
        "H200 SXM", 141e9, 4.8e12, 989e12, 450e9, 10e-6, 10e-6, LAYER, 3.8, "NVIDIA H200 Tensor Core GPU data sheet"
    ),
    "b200": Hardware(
        "B200", 180e9, 7.7e12, 2250e12, 900e9, 10e-6, 10e-6, LAYER, 5.5, "NVIDIA DGX B200 data sheet, an eighth of it"
    ),
    "a100": Hardware(
        "A100 SXM 80 GB", 80e9, 2.039e12, 312e12, 300e9, 12e-6, 12e-6, 85e-6, 1.8,
        "NVIDIA A100 Tensor Core GPU data sheet",
    ),
    "l4": Hardware("L4", 24e9, 0.3e12, 121e12, 32e9, 40e-6, 20e-6, 85e-6, 0.7, "NVIDIA L4 Tensor Core GPU data sheet"),
    "cpu-core": Hardware(
        "one core of a server CPU", 8e9, 27e9, 0.46e12, 10e9, 30e-6, 30e-6, 25e-6, 0.04,
        "measured: docs/log.md, step 0 (int8 kernels)", together=33e9,
    ),
}  # fmt: skip


def open_hardware(name: str) -> Hardware:
    """A device by its name.

    Raises:
        ConfigError: naming the nearest known one.
    """
    found = HARDWARE.get(name.lower())
    if found is None:
        raise unknown("hardware", name.lower(), HARDWARE)
    return found
