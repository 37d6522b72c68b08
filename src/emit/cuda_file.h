#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

/// `type name = value` or `type name`.
struct CudaMember {
    std::string type;
    std::string name;
    std::string value;
};

struct CudaFunction {
    std::string result;
    std::string name;
    std::vector<CudaMember> parameters;
    std::vector<std::string> body;  ///< statements
};

/// What was loaded ahead of its use.
struct CudaStruct {
    /// A member of type Word<>, which may not be ready, and its operand slot.
    struct Word {
        std::string member;
        std::size_t slot = 0;
    };
    std::string name;
    std::vector<CudaMember> members;
    std::vector<Word> words;
};

/// The expressions of one region, as the struct that a task kind's template takes.
struct CudaFunctor {
    std::string name;
    std::vector<CudaMember> aliases;    ///< using name = type
    std::vector<CudaMember> constants;  ///< static constexpr
    std::vector<CudaStruct> structs;
    std::vector<CudaMember> pointers;  ///< `type` is the element, `value` the operand slot
    std::vector<CudaFunction> functions;
    bool words = false;  ///< has a member `words`, by which it reads and writes tagged buffers
};

/// One entry of the kind list: a template of device/stretto/kinds and its functor.
struct CudaKind {
    std::string task_template;
    CudaFunctor functor;
};

/// A program's translation unit.
struct CudaFile {
    std::vector<CudaKind> kinds;
    std::int64_t warps = 0;  ///< that compute
    std::int64_t slots = 0;  ///< of the ring
    std::int64_t slot_bytes = 0;
    std::int64_t load_gap = 0;  ///< clock cycles from one load to the next, for each KiB
};

[[nodiscard]] std::string print(const CudaFunctor& functor);
[[nodiscard]] std::string print(const CudaFile& file);

/// The entries of the list of kinds in an emitted file.
[[nodiscard]] std::vector<std::string> listed_kinds(const std::string& source);
/// An emitted file with another list. Nothing else changes.
[[nodiscard]] std::string with_kinds(const std::string& source, const std::vector<std::string>& kinds);

/// Name of the kernel in every emitted file.
inline constexpr const char* kKernelName = "stretto_program";

}  // namespace stretto
