"""Types of the extension module (sources in python/bindings)."""

from collections.abc import Callable

TensorReference = tuple[str, tuple[int, ...], int]

class Buffer:
    """A tensor that a program binds, or keeps inside."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...

class Program:
    """A compiled program: plan, emitted source and records."""

    @property
    def plan_text(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def machine(self) -> str: ...
    @property
    def plan_options(self) -> str:
        """How it was planned, as `stretto tune` names it."""
    @property
    def arch(self) -> str: ...
    @property
    def buffers(self) -> list[Buffer]: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def front_end(self) -> str: ...
    @property
    def times(self) -> list[tuple[str, float]]: ...
    @property
    def statistics(self) -> dict[str, int]: ...
    def explain(self) -> str: ...
    def verify(self) -> list[str]: ...
    def check_fits(
        self, bytes: int, batch: int = 0, takes_parts: bool = False, packs_weights: bool = False
    ) -> None:
        """Raises UserError where intermediates and tasks do not fit beside the tensors that are there."""
    def save(self, path: str, tensors: dict[str, TensorReference], front_end: str) -> None: ...
    def has_tensor(self, name: str) -> bool: ...
    def take_tensor(self, name: str, address: int) -> None: ...

class Kernel:
    """Machine code of a program for one architecture."""

    @property
    def cubin(self) -> bytes: ...
    @property
    def log(self) -> str: ...
    @property
    def registers(self) -> int: ...
    @property
    def spill_bytes(self) -> int: ...
    @property
    def stack_bytes(self) -> int: ...
    @property
    def from_cache(self) -> bool: ...

class TaskTimes:
    """When one task did what, in microseconds since the launch's first task began."""

    @property
    def task(self) -> int: ...
    @property
    def region(self) -> str: ...
    @property
    def worker(self) -> int: ...
    @property
    def begun(self) -> float: ...
    @property
    def ready(self) -> float: ...
    @property
    def staged(self) -> float: ...
    @property
    def computed(self) -> float: ...
    @property
    def published(self) -> float: ...
    @property
    def stalled(self) -> float:
        """How long it waited for weights, between staged and computed."""

class Trace:
    """What one launch did and when. Times in microseconds."""

    @property
    def backend(self) -> str: ...
    @property
    def total(self) -> float: ...
    @property
    def tick(self) -> float:
        """How finely the clock ticks that places workers beside each other."""
    @property
    def tasks(self) -> list[TaskTimes]:
        """By worker, in the order in which it runs them."""
    @property
    def loads(self) -> list[list[float]]:
        """When each load was issued, by worker."""
    def summary(self) -> str:
        """One page: where the time went, measured beside simulated."""
    def hops(self) -> str:
        """The critical path hop by hop."""
    def save(self, path: str) -> None:
        """Writes a Chrome trace (JSON) that ui.perfetto.dev opens."""

class Executor:
    """A program made ready to run on one backend.

    `kept` holds buffer numbers and addresses of parameters and state; `varying` the numbers of the buffers
    whose addresses each run is given, in this order.
    """

    def __init__(
        self,
        program: Program,
        backend: str,
        kept: list[tuple[int, int]],
        varying: list[int],
        traced: bool = False,
        launches: str = "one",
        packed_weights: bool = False,
    ) -> None: ...
    def run(
        self,
        varying: list[int],
        stream: int,
        iterations: int = 1,
        stop: int = -1,
        progress: int = 0,
        granted: int = 0,
    ) -> None: ...
    def synchronize(self) -> None: ...
    def refresh(self) -> None:
        """Parameters have changed: packed copies of them are made anew by the next run."""

    def trace(self) -> Trace: ...

def compile(
    program_json: bytes,
    tensors: dict[str, TensorReference],
    machine: str,
    numerics: str,
    without: list[str],
    plan: str = "",
) -> Program: ...
def tune(
    program_json: bytes,
    tensors: dict[str, TensorReference],
    inputs: dict[str, TensorReference],
    machine: str,
    numerics: str,
    backend: str,
    seconds: float,
    show: Callable[[str, float], None] | None,
) -> tuple[str, str]:
    """Texts of the best options and of the report."""

def stored_values(
    program: Program, bound: list[tuple[int, int]]
) -> list[tuple[str, str, str, list[int], bytes]]:
    """Region, buffer, dtype, shape and elements of what each region stores in one run on the reference
    backend. `bound` are buffer numbers and addresses in host memory, of all but intermediates.
    """

def free_host_memory() -> int | None: ...
def load(path: str) -> Program: ...
def compile_kernel(program: Program, arch: str, use_cache: bool) -> Kernel: ...
def cuda_available() -> bool: ...
