#include "base/error.h"
#include "bindings.h"

namespace stretto::python {
namespace {

void raise(const char* type, const char* message) {
    PyErr_SetString(nb::module_::import_("stretto.errors").attr(type).ptr(), message);
}

}  // namespace

void bind_errors() {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const UserError& error) {
            raise("UserError", error.what());
        } catch (const RunError& error) {
            raise("RunError", error.what());
        } catch (const InternalError& error) {
            raise("InternalError", error.what());
        } catch (const Error& error) {
            raise("Error", error.what());
        }
    });
}

}  // namespace stretto::python
