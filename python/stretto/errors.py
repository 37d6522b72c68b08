"""The exceptions that Stretto raises. The extension module raises these same classes."""


class Error(Exception):
    """Base of everything that Stretto raises."""


class UserError(Error, ValueError):
    """The input is wrong or unsupported: the message says what, where, and what to do next."""


class InputTypeError(UserError, TypeError):
    """An argument has the wrong type, dtype or device."""


class InputIndexError(UserError, IndexError):
    """An id in an argument is no row of what it indexes."""


class InternalError(Error):
    """A stage broke its own contract: a bug in Stretto, never the user's fault."""


class RunError(Error, RuntimeError):
    """A program failed while it ran, for example because a wait timed out."""
