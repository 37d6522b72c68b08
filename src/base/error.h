#pragma once

#include <stdexcept>
#include <string>

namespace stretto {

/// Base of everything that Stretto throws.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The input is wrong or unsupported: the message says what, where, and what to do next.
class UserError : public Error {
public:
    using Error::Error;
};

/// A stage broke its own contract: a bug in Stretto, never the user's fault.
class InternalError : public Error {
public:
    using Error::Error;
};

/// A program failed while it ran (time-out of a wait, driver error).
class RunError : public Error {
public:
    using Error::Error;
};

/// Throws InternalError(`message`) unless `holds`.
inline void ensure(bool holds, const char* message) {
    if (!holds) throw InternalError(message);
}

}  // namespace stretto
