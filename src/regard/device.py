"""Which device to compute on."""

import torch

from regard.errors import UserError


def find_device(name: str) -> torch.device:
    """auto is CUDA where PyTorch sees one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{name!r} is not a device; use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device {name} is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"there is no {name}: PyTorch sees {torch.cuda.device_count()} CUDA devices; use cpu or auto")
    return device
