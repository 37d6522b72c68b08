"""A compiled training update: calling it, its settings, and its state as PyTorch sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ._core import Program
from .capture import split_inputs
from .compiler import compile
from .errors import UserError
from .index_limits import check_indices
from .memory import check_programs, check_state, size_text
from .model_tensors import ModelTensors
from .objective import Objective, capture_objective
from .optimizers import Optimizer, as_optimizers, check_selections
from .step import Step
from .torch_state import check_same_shapes, load_optimizer_state, optimizer_state
from .training import Training
from .update_program import LossScale, Recipe, Tensors, export_update, initial_state

# What begins anew with each launch.
_OF_A_LAUNCH = ("turn", "losses", "norms")
_TRAINS_ALREADY = (
    "the update trains with other batches now\n"
    "  use the methods of what train() returned, or leave its loop first"
)


def compile_update(
    model: torch.nn.Module,
    objective: Objective,
    *,
    optimizer: Optimizer | Sequence[Optimizer],
    example: Any,
    compute_dtype: torch.dtype | None = None,
    accumulate: bool = False,
    loss_scale: LossScale | None = None,
    average_decay: float | None = None,
    skip_non_finite: bool = False,
    updates_per_launch: int = 1,
    logits: str | int = "stored",
    seed: int = 0,
    backend: str | None = None,
    machine: str | None = None,
    numerics: str = "fused",
) -> Update:
    """Compiles forward, loss, backward, clipping and optimizer of `model` into one launch.

    `objective(model, *batch)` returns the loss, a tensor of one element, or a pair: the sum of losses and
    what to divide it by (the number of tokens). `example` is a batch: a tuple of positional arguments, a
    dict of keyword arguments, or one tensor. Parameters that do not require gradients stay as they are.
    The model is captured in its present mode (`model.train()`), dropout included.

    `compute_dtype` is the type of forward and backward; parameters and optimizer state keep their own.
    With `accumulate` an update may take several microbatches. `loss_scale` skips updates that are not
    finite, and so does `skip_non_finite` without a scale: what they held stays as it was. With
    `average_decay` a moving average of every parameter is kept. With `updates_per_launch` of more than one,
    a launch takes so many batches (see `Update.many` and `Update.train`).

    With `logits="strips"` the results of the longest product that is reduced along its rows, as by a cross
    entropy, are never stored: forward and backward go through its columns in strips, of about 32 MB and at
    most eight, or in as many as `logits` says, and compute each anew. That is one more product of that size,
    for two tensors of [tokens, vocabulary] less. Other updates stay as they are.

    `seed` is the key of dropout's random numbers. `backend`, `machine` and `numerics` are those of
    `stretto.compile`.

    Raises UserError where the objective cannot be captured, a parameter gets no gradient, or there is not
    enough memory; the message says about which batch would fit, and whether strips would.
    """
    plan = _plan(logits)
    args, kwargs = split_inputs(example)
    if accumulate and updates_per_launch > 1:
        raise UserError("an update of microbatches is a launch of its own: leave out updates_per_launch")
    optimizers = as_optimizers(optimizer)
    check_selections(optimizers, {name for name, _ in model.named_parameters(remove_duplicate=False)})
    recipe = Recipe(optimizers, accumulate, loss_scale, average_decay, updates_per_launch, skip_non_finite)
    captured = capture_objective(model, objective, args, kwargs, compute_dtype)
    if not captured.parameters:
        raise UserError("the model has no parameter that requires a gradient\n  use requires_grad_() on some")
    device = next(iter(captured.parameters.values())).device
    check_state(captured, recipe, device)
    state = initial_state(captured, recipe, seed)
    rows = _rows((args, kwargs))
    if updates_per_launch > 1:
        args, kwargs = pytree.tree_map(lambda leaf: _repeated(leaf, updates_per_launch), (args, kwargs))
    exported = [export_update(captured, recipe, state, args, kwargs)]
    if accumulate:
        exported.append(export_update(captured, recipe, state, args, kwargs, accumulate=True))

    def compiled(choices: str) -> list[Step]:
        chosen = {"backend": backend, "machine": machine, "numerics": numerics, "plan": choices}
        return [compile(each, **chosen) for each in exported]

    steps = compiled(plan)
    try:
        check_programs(_programs(steps), device, batch=rows, takes_parts=accumulate)
    except UserError as error:
        saved = _saved(steps, compiled(_plan("strips"))) if not plan else 0
        if saved <= 0:
            raise
        hint = f'logits="strips" would save {size_text(saved)} of intermediates'
        raise UserError(f"{error}\n  {hint}") from None
    step, part = steps[0], steps[1] if accumulate else None
    return Update(model, recipe, dict(captured.parameters), state, step, part)


def _plan(logits: str | int) -> str:
    """The planner's choice for `logits` of compile_update."""
    if logits == "stored":
        return ""
    if logits == "strips":
        return "product_strips=0"
    if isinstance(logits, int) and not isinstance(logits, bool) and logits > 1:
        return f"product_strips={logits}"
    raise UserError(f"logits={logits!r}: it is 'stored', 'strips', or a number of strips, at least 2")


def _programs(steps: Sequence[Step]) -> list[Program]:
    return [step.program for step in steps]


def _saved(steps: Sequence[Step], others: Sequence[Step]) -> int:
    """Bytes of intermediates that the others need less."""
    before, after = (
        sum(program.statistics["arena_bytes"] for program in _programs(each)) for each in (steps, others)
    )
    return before - after


class Update:
    """A training update that runs as one launch. Call it with a batch; it returns the loss before the
    update.

    The model's parameters and buffers are the update's own state: they have the new values after a call.
    A call raises UserError, and changes nothing, where parameters were replaced by other tensors (`model.to`)
    or modules, tied, frozen or unfrozen since the update was compiled.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        recipe: Recipe,
        parameters: Mapping[str, torch.nn.Parameter],
        state: Tensors,
        step: Step,
        part: Step | None,
    ):
        self._model = model
        self._recipe = recipe
        self._parameters = parameters
        self._state = state
        self._step = step
        self._part = part
        held = [name.removeprefix("model.") for name in state if name.startswith("model.")]
        self._tensors = ModelTensors(model, held)
        self._norm: Tensor | None = None
        self._training: Training | None = None
        if step.device.type == "cuda":
            # So that the host can read them while a launch goes on.
            for log in state.keys() & {"losses", "norms"}:
                state[log] = torch.zeros(state[log].shape, pin_memory=True)
                step.rebind(log, state[log])

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Runs one update with the last (or only) microbatch; returns the loss of all its microbatches.

        Raises UserError where a launch has several updates.
        """
        if self._recipe.updates_per_launch > 1:
            raise UserError(
                f"a launch of this update takes {self._recipe.updates_per_launch} batches\n"
                "  call update.many with stacked batches or update.train with an iterator of them, "
                "or compile it without updates_per_launch"
            )
        self._check_ready()
        loss, *norm = self._step(*args, **kwargs)
        self._norm = norm[0] if norm else None
        return loss

    def many(self, *args: Any, **kwargs: Any) -> Tensor:
        """Runs as many updates as a launch has, one after the other; returns their losses [updates].

        Every tensor holds a batch for each update, stacked in front. The host takes no part in between.
        Raises UserError where the update was compiled for one batch.
        """
        self._check_several()
        self._check_ready()
        given = self._step.flatten(args, kwargs)
        for slot, position in self._step.given_slots:
            if slot.name in self._step.index_limits:
                check_indices(slot.name, given[position], self._step.index_limits[slot.name])
        _, *norm = self._step.repeat(self._recipe.updates_per_launch, *args, **kwargs)
        self._norm = norm[0] if norm else None
        return self._state["losses"].to(self._step.device, copy=True, non_blocking=True)

    def train(self, batches: Iterable[Any], updates: int | None = None) -> Training:
        """Updates with one batch after the other, at most `updates`, in a launch that the host feeds while it
        runs:

            for report in update.train(batches, updates=1000):
                print(report.number, report.loss)

        A batch is like the example; its tensors are best in host memory. The iterator runs in a thread of
        its own, up to `updates_per_launch` + 1 batches ahead. The bits are those of one launch for each
        batch. See Training for stopping, and for saving the state meanwhile.

        Raises UserError where the update was compiled for one batch, or trains already. Iterating raises
        what the iterator raises, UserError for a batch that does not fit, and RunError where a loss is not
        finite, unless the update skips it: all of them behind the reports of the updates before.
        """
        self._check_several()
        self._check_ready()
        return Training(self, batches, updates)

    def accumulate(self, *args: Any, **kwargs: Any) -> Tensor:
        """Adds a microbatch to the next update; returns its loss. Losses are weighted by what the
        objective returns.

        Raises UserError where the update was not compiled with accumulate=True.
        """
        if self._part is None:
            raise UserError("this update takes one batch at a time\n  compile it with accumulate=True")
        self._check_ready()
        return self._part(*args, **kwargs)[0]

    @property
    def updates_per_launch(self) -> int:
        """Batches that a launch takes, or that its ring holds."""
        return self._recipe.updates_per_launch

    @property
    def skips_non_finite(self) -> bool:
        """Does an update whose loss or gradients are not finite leave the state as it is?"""
        return self._recipe.skips_non_finite

    def begin_training(self, training: Training) -> None:
        """Leaves the state to `training`. Raises UserError where another one has it."""
        if self._training is not None:
            raise UserError(_TRAINS_ALREADY)
        self._check_ready()
        self._training = training

    def end_training(self) -> None:
        """Takes the state back. The next launch begins with its first batch."""
        self._state["turn"].zero_()
        self._training = None

    @property
    def gradient_norm(self) -> Tensor | None:
        """Norm of all gradients in the last update, before clipping; None where the update has no use for
        it.
        """
        return self._norm

    @property
    def count(self) -> int:
        """Updates so far, without those that were skipped."""
        return int(self._state["step"])

    def set(self, **settings: float) -> None:
        """Sets numbers of the optimizer from the next update on, in all groups: update.set(lr=1e-4).

        Raises UserError for a setting that is a schedule, or that the optimizer does not have.
        """
        self._check_idle()
        for key, value in settings.items():
            held = [
                t
                for name, t in self._state.items()
                if name.startswith("settings.") and name.endswith(f".{key}")
            ]
            if not held:
                known = sorted({name.split(".")[-1] for name in self._state if name.startswith("settings.")})
                raise UserError(f"{key!r} is no setting that can be changed\n  these are: {', '.join(known)}")
            for tensor in held:
                tensor.fill_(value)

    def averages(self) -> Tensors:
        """The moving averages of the parameters, by name."""
        return self._named("average.")

    def state_dict(self) -> dict[str, Any]:
        """Everything that a later run needs to go on, in PyTorch's formats: model, optimizers, and the
        rest.

        "optimizers" holds one state for each optimizer, as the class of its name in torch.optim has it.
        Tensors are the update's own: copy them to keep them.
        """
        self._check_idle()
        self.synchronize()
        kept = [
            name for name in self._state
            if name not in _OF_A_LAUNCH and ("." not in name or name.startswith(("average.", "sum.")))
        ]  # fmt: skip
        return {
            "model": self._model.state_dict(),
            "optimizers": optimizer_state(self._recipe, self._parameters, self._state),
            "update": {name: self._state[name] for name in kept},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state_dict`.

        Raises UserError where it does not fit, before anything has changed.
        """
        missing = {"model", "optimizers", "update"} - state.keys()
        if missing:
            raise UserError(
                f"the state has no {', '.join(sorted(missing))}\n  pass what state_dict() returned"
            )
        unknown = state["update"].keys() ^ self.state_dict()["update"].keys()
        if unknown:
            raise UserError(
                f"the state and this update differ in {', '.join(sorted(unknown)[:8])}\n"
                "  compile the update with the options that the state was saved with"
            )
        apply = load_optimizer_state(self._recipe, self._parameters, self._state, state["optimizers"])
        # PyTorch notices what does not fit when it has copied the rest.
        check_same_shapes(self._model.state_dict(), state["model"], "the model")
        check_same_shapes(self._state, state["update"], "the update", some=True)
        self._model.load_state_dict(state["model"])
        apply()
        for name, tensor in state["update"].items():
            self._state[name].copy_(tensor)

    @property
    def state(self) -> Tensors:
        """The tensors that live between updates, by name (see stretto.update_program)."""
        return dict(self._state)

    @property
    def step(self) -> Step:
        """The program of one update, with its plan, source and statistics."""
        return self._step

    @property
    def plan(self) -> str:
        """The plan in its text form."""
        return self._step.plan

    @property
    def source(self) -> str:
        """The CUDA source of the kernel."""
        return self._step.source

    def explain(self) -> str:
        """What the plan costs and why, as text."""
        return self._step.explain()

    def synchronize(self) -> None:
        """Waits for queued launches and raises RunError if one of them failed."""
        self._step.synchronize()
        if self._part is not None:
            self._part.synchronize()

    def _check_several(self) -> None:
        if self._recipe.updates_per_launch == 1:
            raise UserError(
                "a launch of this update takes one batch\n  compile it with updates_per_launch=..."
            )

    def _check_ready(self) -> None:
        self._check_idle()
        self._tensors.check_trained()

    def _check_idle(self) -> None:
        if self._training is not None and not self._training.is_between_updates:
            raise UserError(_TRAINS_ALREADY)
        self._tensors.check_places()

    def _named(self, prefix: str) -> Tensors:
        return {name.removeprefix(prefix): t for name, t in self._state.items() if name.startswith(prefix)}


def _rows(batch: Any) -> int:
    """Rows of a batch: what the first dimension of all its tensors is, and 0 where they differ."""
    firsts = {x.shape[0] if x.dim() else 0 for x in pytree.tree_leaves(batch) if isinstance(x, Tensor)}
    return firsts.pop() if len(firsts) == 1 else 0


def _repeated(leaf: Any, times: int) -> Any:
    """What a ring of batches looks like, without the memory of one."""
    return leaf.expand(times, *leaf.shape) if isinstance(leaf, Tensor) else leaf
