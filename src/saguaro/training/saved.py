"""A training in one file: weights that learn, the optimiser's two means of each, and where it is.

Restored, the run goes on bitwise as if it had not been stopped. Must not know: data.
Tests: tests/training/test_run.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from saguaro.errors import WeightsError

MEANS = ("exp_avg", "exp_avg_sq")


def save(
    path: Path, parameters: Mapping[str, torch.Tensor], optimiser: torch.optim.Optimizer, where: Mapping[str, Any]
) -> None:
    """Write the file whole or not at all."""
    tensors = {f"weight/{name}": value.detach().contiguous() for name, value in parameters.items()}
    for name, parameter in parameters.items():
        state = optimiser.state.get(parameter) or {}
        tensors |= {f"{mean}/{name}": state[mean].contiguous() for mean in MEANS if mean in state}
    staging = path.with_name(path.name + ".writing")
    save_file(tensors, staging, metadata={"where": json.dumps(dict(where))})
    staging.replace(path)


def restore(
    path: Path, parameters: Mapping[str, torch.Tensor], optimiser: torch.optim.Optimizer
) -> dict[str, Any] | None:
    """Fill weights and optimiser in place; returns what was saved beside them, None without a file.

    Raises:
        WeightsError: the file is damaged or of another student.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            where = dict(json.loads(file.metadata()["where"]))
            names = set(file.keys())
            for name, parameter in parameters.items():
                with torch.no_grad():
                    parameter.copy_(file.get_tensor(f"weight/{name}"))
                if f"{MEANS[0]}/{name}" in names:
                    means = {mean: file.get_tensor(f"{mean}/{name}").to(parameter.device) for mean in MEANS}
                    optimiser.state[parameter] = {"step": torch.tensor(float(where["step"])), **means}
    except Exception as error:  # the package raises its own class
        raise WeightsError(f"{path} cannot be read ({error}); give --retrain to train anew.") from error
    return where
