"""Is a model still the one that an update was compiled for?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from .errors import UserError


class ModelTensors:
    """The modules and parameters of a model, and those of its buffers that are named in `buffers`.

    An update changes these very tensors: it would go on to train parameters that were frozen since then, and
    would not see others that took their place.
    """

    def __init__(self, model: torch.nn.Module, buffers: Collection[str]):
        #: Tables of modules, and what they held under which key; their names; the same of tensors.
        self._places: list[tuple[dict[str, Any], str, Any]] = []
        self._place_names: list[str] = []
        self._tensors: list[tuple[Tensor, int, bool]] = []
        self._tensor_names: list[str] = []
        for path, module in model.named_modules():
            prefix = f"{path}." if path else ""
            for table in (module._modules, module._parameters, module._buffers):
                for key, held in table.items():
                    name = prefix + key
                    if table is module._buffers and name not in buffers:
                        continue
                    self._places.append((table, key, held))
                    self._place_names.append(name)
                    if isinstance(held, Tensor):
                        self._tensors.append((held, held.data_ptr(), held.requires_grad))
                        self._tensor_names.append(name)

    def check_places(self) -> None:
        """Raises UserError naming modules and tensors that are not where they were."""
        if all(table.get(key) is held for table, key, held in self._places) and all(
            tensor.data_ptr() == address for tensor, address, _ in self._tensors
        ):
            return
        pairs = zip(self._place_names, self._places, strict=True)
        others = [name for name, (table, key, held) in pairs if table.get(key) is not held]
        others += [
            name
            for name, (tensor, address, _) in zip(self._tensor_names, self._tensors, strict=True)
            if tensor.data_ptr() != address
        ]
        raise UserError(
            f"the model's parameters or modules are others now than those of the update: {listed(others)}\n"
            "  move, convert, tie or replace them before compile_update; after it, copy new values into "
            "them: parameter.data.copy_(values)"
        )

    def check_trained(self) -> None:
        """Raises UserError naming parameters that were frozen or unfrozen."""
        if all(tensor.requires_grad == trained for tensor, _, trained in self._tensors):
            return
        changed = {
            name: trained
            for name, (tensor, _, trained) in zip(self._tensor_names, self._tensors, strict=True)
            if tensor.requires_grad != trained
        }
        is_frozen = any(changed.values())
        names = [name for name, trained in changed.items() if trained == is_frozen]
        raise UserError(
            f"these parameters were {'frozen' if is_frozen else 'unfrozen'} after compile_update: "
            f"{listed(names)}\n"
            "  compile again, as what is trained is part of the program, or take it back: "
            f"parameter.requires_grad_({is_frozen})"
        )


def listed(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
