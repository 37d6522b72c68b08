"""Tensors of PyTorch as Stretto names and checks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .errors import InputTypeError, UserError

_TORCH_TYPES = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
_TYPE_NAMES = {dtype: name for name, dtype in _TORCH_TYPES.items()}


def type_name(dtype: torch.dtype, what: str) -> str:
    """Stretto's name of a dtype. Raises InputTypeError naming `what` where Stretto has no such type."""
    try:
        return _TYPE_NAMES[dtype]
    except KeyError:
        known = ", ".join(str(known).removeprefix("torch.") for known in _TYPE_NAMES)
        raise InputTypeError(
            f"{what} is {dtype}, which stretto does not have\n  known types: {known}"
        ) from None


def torch_type(name: str) -> torch.dtype:
    """The dtype of Stretto's name."""
    return _TORCH_TYPES[name]


def host_reference(name: str, tensor: torch.Tensor) -> tuple[str, tuple[int, ...], int]:
    """What C++ takes of a tensor: type, shape, address. The address is 0 where the host cannot read it."""
    address = tensor.data_ptr() if tensor.device.type == "cpu" else 0
    return type_name(tensor.dtype, f"tensor {name!r}"), tuple(tensor.shape), address


def check_input(name: str, tensor: Any, dtype: torch.dtype, shape: Sequence[int]) -> None:
    """Raises InputTypeError or UserError where `tensor` is no tensor of this type and shape."""
    if not isinstance(tensor, torch.Tensor):
        raise InputTypeError(f"input {name!r} is a {type(tensor).__name__}, it must be a tensor")
    if tensor.dtype != dtype:
        raise InputTypeError(
            f"input {name!r} is {tensor.dtype}, the step was compiled for {dtype}\n"
            f"  pass {name}.to({dtype}), or compile again"
        )
    if tensor.shape != shape:
        raise UserError(
            f"input {name!r} has shape {tuple(tensor.shape)}, the step was compiled for {tuple(shape)}\n"
            "  compile again with example inputs of this shape"
        )
