"""Stretto turns an unmodified PyTorch model into one persistent CUDA kernel.

Importing this package registers the torch.compile backend "stretto".
"""

from torch._dynamo import register_backend as _register_backend

from .capture import export
from .compiler import compile, load
from .decoder import DecoderShape, export_decoder
from .dynamo import dynamo_backend
from .errors import Error, InputIndexError, InputTypeError, InternalError, RunError, UserError
from .generator import Generator, compile_generator, export_generator
from .optimizers import SGD, Adam, AdamW, Lion, Muon, Optimizer
from .sampler import Sampler
from .step import Step
from .training import Report, Training
from .update import Update, compile_update
from .update_program import LossScale

_register_backend(dynamo_backend, name="stretto")

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "DecoderShape",
    "Error",
    "Generator",
    "InputIndexError",
    "InputTypeError",
    "InternalError",
    "Lion",
    "LossScale",
    "Muon",
    "Optimizer",
    "Report",
    "RunError",
    "Sampler",
    "Step",
    "Training",
    "Update",
    "UserError",
    "compile",
    "compile_generator",
    "compile_update",
    "dynamo_backend",
    "export",
    "export_decoder",
    "export_generator",
    "load",
]
