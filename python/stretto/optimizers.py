"""Optimizers as pure functions of tensors, which become part of a compiled update.

A rule is one function: (parameter, gradient, state, settings) -> (new parameter, new state), for one
parameter at a time. Settings such as the learning rate are tensors of one element, so that they can change
between updates without compiling again. Every rule computes what the class of the same name in torch.optim
does; its state has the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .errors import InputTypeError, UserError
from .model_tensors import listed

State = dict[str, Tensor]
#: A value, or a function of the number of updates done before (an int64 tensor of one element).
Setting = float | Callable[[Tensor], Tensor]
#: Which parameters: a predicate of name and tensor, or a collection of names.
Selection = Callable[[str, Tensor], bool] | Sequence[str]
_SELECTION = "params are names as in model.named_parameters(), or a function of name and parameter"
#: (parameter, gradient, state, settings) -> (new parameter, new state)
Rule = Callable[[Tensor, Tensor, State, "Settings"], tuple[Tensor, State]]


class Settings:
    """Settings of one group: float64 tensors of one element, and options that are part of the program.

    `step` counts updates from 1.
    """

    def __init__(self, step: Tensor, values: Mapping[str, Tensor], options: Mapping[str, Any]):
        self.step = step
        self.values = dict(values)
        self.options = dict(options)
        self._rounded: dict[tuple[str, torch.dtype], Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        for table in (self.__dict__["values"], self.__dict__["options"]):
            if name in table:
                return table[name]
        raise AttributeError(f"the optimizer has no setting {name!r}")

    def rounded(self, name: str, like: Tensor, value: Callable[[], Tensor] | None = None) -> Tensor:
        """Setting `name`, or what `value` computes from settings under that name, in the type of a parameter.

        It is computed once for all parameters of the group.
        """
        key = (name, like.dtype)
        if key not in self._rounded:
            self._rounded[key] = (self.values[name] if value is None else value()).to(like.dtype)
        return self._rounded[key]

    def bias_correction(self, beta: Tensor) -> Tensor:
        """1 - beta ** step: the weight that an average which began at zero has so far."""
        return 1 - beta ** self.step.double()


@dataclass(frozen=True)
class Optimizer:
    """A rule, its settings, and the parameters that it is for.

    `settings` are numbers or schedules, the same names as in torch.optim. `groups` are mappings with
    "params" (see Selection) and the settings that differ there; a parameter belongs to the first group
    that selects it, and otherwise to the defaults. `params` selects the optimizer's own parameters where
    there are several optimizers. `clip_norm` bounds the norm of all its gradients together. `states` are
    names of tensors like the parameter, which begin at zero. `options` are fixed: a change needs another
    program.
    """

    rule: Rule
    settings: Mapping[str, Setting]
    states: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    clip_norm: Setting | None = None
    groups: Sequence[Mapping[str, Any]] = ()
    params: Selection | None = None
    torch_class: type[torch.optim.Optimizer] = torch.optim.Optimizer
    #: Settings as torch.optim groups them: ("betas", ("beta1", "beta2")).
    torch_tuples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group in self.groups:
            unknown = group.keys() - self.settings.keys() - self.torch_tuples.keys() - {"params"}
            if "params" not in group or unknown:
                raise UserError(
                    f"a group of the optimizer has the keys {sorted(group)}\n"
                    f"  it needs 'params', and may change {', '.join(self.settings)}"
                )
        for settings in self.group_settings():
            for key, value in settings.items():
                if not callable(value) and not isinstance(value, int | float):
                    raise InputTypeError(
                        f"setting {key!r} of the optimizer is a {type(value).__name__}\n"
                        "  it must be a number, or a function of the number of updates done before (a tensor)"
                    )

    def group_settings(self) -> list[dict[str, Setting]]:
        """The settings of every group; the defaults come first."""
        return [dict(self.settings)] + [
            dict(self.settings) | self._flat({k: v for k, v in group.items() if k != "params"})
            for group in self.groups
        ]

    def group_of(self, name: str, parameter: Tensor) -> int:
        """The number of a parameter's group, 0 for the defaults."""
        for number, group in enumerate(self.groups):
            if selects(group["params"], name, parameter):
                return number + 1
        return 0

    def _flat(self, changes: Mapping[str, Any]) -> dict[str, Setting]:
        flat = {}
        for key, value in changes.items():
            flat.update(
                zip(self.torch_tuples[key], value, strict=True)
                if key in self.torch_tuples
                else [(key, value)]
            )
        return flat


def selects(selection: Selection, name: str, parameter: Tensor) -> bool:
    """Is the parameter `name` in the selection?"""
    return selection(name, parameter) if callable(selection) else name in selection


def check_selections(optimizers: Sequence[Optimizer], names: Collection[str]) -> None:
    """Raises UserError where an optimizer or a group lists names that no parameter in `names` has."""
    for optimizer in optimizers:
        for selection in (optimizer.params, *(group["params"] for group in optimizer.groups)):
            if selection is None or callable(selection):
                continue
            if isinstance(selection, str):
                raise InputTypeError(f"the optimizer's params are the string {selection!r}\n  {_SELECTION}")
            unknown = [name for name in selection if name not in names]
            if unknown:
                raise UserError(
                    f"the model has no such parameters: {listed(unknown)}\n  the optimizer's {_SELECTION}"
                )


def as_optimizers(optimizer: Optimizer | Sequence[Optimizer]) -> tuple[Optimizer, ...]:
    """One or several optimizers as a tuple. Raises InputTypeError for anything else."""
    several = tuple(optimizer) if isinstance(optimizer, Sequence) else (optimizer,)
    for one in several:
        if not isinstance(one, Optimizer):
            raise InputTypeError(
                f"a {type(one).__name__} is no optimizer of stretto\n"
                "  pass stretto.AdamW(lr=...) or another of stretto's, or stretto.Optimizer(rule=...)"
            )
    return several


def SGD(
    lr: Setting = 1e-3,
    momentum: float = 0,
    dampening: float = 0,
    weight_decay: Setting = 0,
    nesterov: bool = False,
    **common: Any,
) -> Optimizer:
    """torch.optim.SGD. `common` are clip_norm, groups and params of Optimizer, here and below."""
    return Optimizer(
        _sgd,
        {"lr": lr, "weight_decay": weight_decay},
        ("momentum_buffer",) if momentum else (),
        {"momentum": momentum, "dampening": dampening, "nesterov": nesterov},
        torch_class=torch.optim.SGD,
        **common,
    )


def Adam(
    lr: Setting = 1e-3,
    betas: tuple[Setting, Setting] = (0.9, 0.999),
    eps: Setting = 1e-8,
    weight_decay: Setting = 0,
    **common: Any,
) -> Optimizer:
    """torch.optim.Adam: the decay is a part of the gradient."""
    return _adam_family(torch.optim.Adam, False, lr, betas, eps, weight_decay, common)


def AdamW(
    lr: Setting = 1e-3,
    betas: tuple[Setting, Setting] = (0.9, 0.999),
    eps: Setting = 1e-8,
    weight_decay: Setting = 1e-2,
    **common: Any,
) -> Optimizer:
    """torch.optim.AdamW: the decay is apart from the gradient."""
    return _adam_family(torch.optim.AdamW, True, lr, betas, eps, weight_decay, common)


def Lion(
    lr: Setting = 1e-4,
    betas: tuple[Setting, Setting] = (0.9, 0.99),
    weight_decay: Setting = 0,
    **common: Any,
) -> Optimizer:
    """Chen et al., Symbolic Discovery of Optimization Algorithms, 2023: the sign of an average of
    gradients.
    """
    return Optimizer(
        _lion,
        {"lr": lr, "beta1": betas[0], "beta2": betas[1], "weight_decay": weight_decay},
        ("exp_avg",),
        torch_tuples={"betas": ("beta1", "beta2")},
        **common,
    )


def Muon(
    lr: Setting = 1e-3,
    weight_decay: Setting = 0.1,
    momentum: Setting = 0.95,
    nesterov: bool = True,
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
    eps: float = 1e-7,
    ns_steps: int = 5,
    adjust_lr_fn: str | None = None,
    **common: Any,
) -> Optimizer:
    """torch.optim.Muon, for matrices: momentum, made nearly orthogonal by Newton-Schulz iterations in
    bfloat16.
    """
    return Optimizer(
        _muon,
        {"lr": lr, "weight_decay": weight_decay, "momentum": momentum},
        ("momentum_buffer",),
        {
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        },
        torch_class=torch.optim.Muon,
        **common,
    )


def _adam_family(
    torch_class: type[torch.optim.Optimizer],
    decoupled: bool,
    lr: Setting,
    betas: tuple[Setting, Setting],
    eps: Setting,
    weight_decay: Setting,
    common: Mapping[str, Any],
) -> Optimizer:
    return Optimizer(
        _adamw if decoupled else _adam,
        {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": weight_decay},
        ("exp_avg", "exp_avg_sq"),
        torch_class=torch_class,
        torch_tuples={"betas": ("beta1", "beta2")},
        **common,
    )


def _decayed(p: Tensor, s: Settings) -> Tensor:
    """The parameter after decoupled weight decay."""
    return p * s.rounded("1 - lr * weight_decay", p, lambda: 1 - s.lr * s.weight_decay)


def _moved(average: Tensor, towards: Tensor, s: Settings, beta: str) -> Tensor:
    """An exponential average with one more value in it."""
    return average + s.rounded(f"1 - {beta}", average, lambda: 1 - s.values[beta]) * (towards - average)


def _sgd(p: Tensor, gradient: Tensor, state: State, s: Settings) -> tuple[Tensor, State]:
    g = gradient + s.rounded("weight_decay", p) * p
    if not s.momentum:
        return p - s.rounded("lr", p) * g, {}
    # The first gradient is taken whole, whatever the dampening.
    share = s.rounded("share", p, lambda: torch.where(s.step == 1, 1.0, 1.0 - s.dampening))
    buffer = s.momentum * state["momentum_buffer"] + share * g
    direction = g + s.momentum * buffer if s.nesterov else buffer
    return p - s.rounded("lr", p) * direction, {"momentum_buffer": buffer}


def _adam(p: Tensor, gradient: Tensor, state: State, s: Settings) -> tuple[Tensor, State]:
    return _adam_step(p, gradient + s.rounded("weight_decay", p) * p, state, s)


def _adamw(p: Tensor, gradient: Tensor, state: State, s: Settings) -> tuple[Tensor, State]:
    return _adam_step(_decayed(p, s), gradient, state, s)


def _adam_step(p: Tensor, g: Tensor, state: State, s: Settings) -> tuple[Tensor, State]:
    average = _moved(state["exp_avg"], g, s, "beta1")
    fresh = s.rounded("1 - beta2", p, lambda: 1 - s.beta2)
    square = s.rounded("beta2", p) * state["exp_avg_sq"] + fresh * (g * g)
    root = s.rounded("root", p, lambda: s.bias_correction(s.beta2).sqrt())
    size = s.rounded("size", p, lambda: s.lr / s.bias_correction(s.beta1))
    moved = p - size * (average / (square.sqrt() / root + s.rounded("eps", p)))
    return moved, {"exp_avg": average, "exp_avg_sq": square}


def _lion(p: Tensor, g: Tensor, state: State, s: Settings) -> tuple[Tensor, State]:
    direction = _moved(state["exp_avg"], g, s, "beta1").sign()
    moved = _decayed(p, s) - s.rounded("lr", p) * direction
    return moved, {"exp_avg": _moved(state["exp_avg"], g, s, "beta2")}


def _muon(p: Tensor, g: Tensor, state: State, s: Settings) -> tuple[Tensor, State]:
    if p.dim() != 2:
        raise UserError(
            f"Muon is for matrices, a parameter has shape {tuple(p.shape)}\n"
            "  give it those with params=lambda name, p: p.dim() == 2, and the others to a second optimizer"
        )
    buffer = _moved(state["momentum_buffer"], g, s, "momentum")
    direction = g + s.rounded("momentum", p) * (buffer - g) if s.nesterov else buffer
    update = _orthogonal(direction, s.ns_coefficients, s.ns_steps, s.eps).to(p.dtype)
    size = s.rounded("lr", p) * _muon_scale(p.shape, s.adjust_lr_fn)
    return _decayed(p, s) - size * update, {"momentum_buffer": buffer}


def _orthogonal(g: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Nearly the orthogonal factor of `g`: a quintic iteration on its singular values (Jordan, 2024)."""
    a, b, c = coefficients
    x = g.bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.float().square().sum().sqrt().bfloat16().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _muon_scale(shape: torch.Size, adjust: str | None) -> float:
    rows, columns = shape
    if adjust in (None, "original"):
        return math.sqrt(max(1, rows / columns))
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    raise UserError(f"Muon's adjust_lr_fn is {adjust!r}\n  use None, 'original' or 'match_rms_adamw'")
