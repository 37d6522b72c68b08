#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emit/index_text.h"
#include "emit/operation_text.h"
#include "fuse/region.h"

namespace stretto {

/// What a function of a functor may refer to.
struct Scope {
    std::vector<std::string> coordinates;  ///< by dimension: an I32 variable, or "0"
    std::string accumulators;              ///< format of Acc: "acc[{}]" or "acc"; empty where there are none
    DType accumulator_type = DType::F32;
    Quick quick = Quick::Nothing;
};

/// The buffers of one region as pointers `p<slot>` of its functor.
class Pointers {
public:
    Pointers(const RegionGraph& graph, std::vector<BufferId> slots)
        : graph_(graph), slots_(std::move(slots)) {}

    /// Name of the pointer to `buffer`; remembers that it is used.
    [[nodiscard]] std::string name(BufferId buffer);
    /// Slot of a tagged buffer; nothing for others.
    [[nodiscard]] std::optional<std::size_t> words(BufferId buffer) const;
    /// Does an element offset into the buffer need 64 bits?
    [[nodiscard]] bool wide(BufferId buffer) const;

    [[nodiscard]] const std::vector<BufferId>& slots() const { return slots_; }
    [[nodiscard]] const std::set<std::size_t>& used() const { return used_; }
    [[nodiscard]] const Buffer& buffer(std::size_t slot) const { return graph_[slots_.at(slot)]; }

private:
    const RegionGraph& graph_;
    std::vector<BufferId> slots_;
    std::set<std::size_t> used_;
};

/// Writes expressions as the statements of one function: one constant for each node.
class Statements {
public:
    /// Variables are named `letter` and a number.
    Statements(Pointers& pointers, Scope scope, char letter = 't')
        : pointers_(pointers), scope_(std::move(scope)), letter_(letter) {}

    /// Variables that hold the values of some nodes already, by node.
    using Known = std::map<std::size_t, std::string>;

    /// Evaluates `expr`; returns the variables of its nodes (variables[i] for node i).
    std::vector<std::string> evaluate(const Expr& expr, const Known& known = {});
    /// A load that needs nothing but coordinates, made ahead of the rest of its expression.
    struct EarlyLoad {
        std::size_t node = 0;
        std::string type;   ///< of the variable that keeps what was loaded
        std::string value;  ///< what to load
        DType element = DType::F32;
        std::optional<std::size_t> words;  ///< operand slot, where it yields a Word<> that may not be ready
        bool vector = false;               ///< it yields neighbours: a Vector<>, or a WordVector<>
    };
    [[nodiscard]] std::vector<EarlyLoad> early_loads(const Expr& expr);
    /// Those that `count` neighbours along dimension `dim` make in one: they lie together, or are the same. Places that all of
    /// them share are evaluated here.
    [[nodiscard]] std::vector<EarlyLoad> early_vectors(const Expr& expr, std::size_t dim, std::int64_t count);
    /// Values that are made of loads with maps of which `same` holds, and of constants: each node that has one and, where
    /// anything else uses it, the variable to which it is evaluated here.
    [[nodiscard]] std::vector<EarlyLoad> shared_values(const Expr& expr,
                                                       const std::function<bool(const IndexMap&)>& same);
    /// What `count` neighbours along dimension `dim` have in common, given that groups begin at multiples of `count` and what is
    /// `known` already: each such node and, where anything else uses it, the variable to which it is evaluated here, of the
    /// first neighbour.
    [[nodiscard]] Known group_values(const Expr& expr, std::size_t dim, std::int64_t count,
                                     const Known& known);
    /// Evaluates `access`, without indirect coordinates, to a variable of the access's type.
    std::string read(const Access& access);
    /// The address of an element, without indirect coordinates or masks.
    [[nodiscard]] std::string address(const Access& access);
    void store(const Store& store, const Known& known = {});
    /// The statement that stores a Vector<> where a group of elements lies, without indirect coordinates.
    [[nodiscard]] std::string written(const Access& access, const std::string& vector);
    /// Evaluates what `store`, one without indirect coordinates, stores.
    [[nodiscard]] std::string value_of(const Store& store, const Known& known);
    /// Stores `value`, of type `type`, through `access`, without indirect coordinates.
    void write(const Access& access, const std::string& value, DType type);
    void add(std::string statement) { lines_.push_back(std::move(statement)); }

    [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

private:
    /// Node i of `expr`, a load at places that are evaluated already.
    [[nodiscard]] EarlyLoad early_load(const Expr& expr, std::size_t i,
                                       const std::vector<std::string>& variables = {});
    /// Evaluates node i of `expr` into `variables`, by node; equal values once.
    void share(const Expr& expr, std::size_t i, std::vector<std::string>& variables);
    /// The same for the arguments of node i: of a load, its indirect coordinates.
    void place(const Expr& expr, std::size_t i, std::vector<std::string>& variables);
    /// Does the place of node i of `expr`, a load, come from words?
    [[nodiscard]] bool waits_for_place(const Expr& expr, std::size_t i) const;
    /// The indirect coordinates of `access`, which are these nodes of `expr`, inside their extents.
    [[nodiscard]] std::vector<std::string> indirect_of(const Expr& expr,
                                                       const std::vector<std::int32_t>& nodes,
                                                       const Access& access,
                                                       const std::vector<std::string>& variables) const;
    std::string declare(DType type, const std::string& value);
    [[nodiscard]] IndexText index(const Access& access, const std::vector<std::string>& indirect) const;
    [[nodiscard]] std::string load(const Access& access, const std::vector<std::string>& indirect);
    /// Evaluates what is stored; of what is rounded to 16 bits, exponentials are quick.
    [[nodiscard]] std::vector<std::string> evaluate(const Store& store, const Known& known);
    /// `value`, of the store's expression, as what is written.
    [[nodiscard]] static std::string stored(const Store& store, const std::string& value);
    void write_at(const Access& access, const std::vector<std::string>& indirect, const std::string& element);
    [[nodiscard]] std::string value_of(const Expr& expr, const ExprNode& node,
                                       const std::vector<std::string>& variables);

    Pointers& pointers_;
    Scope scope_;
    std::vector<std::string> lines_;
    std::map<std::string, std::string> shared_;  ///< variables of `share`, by type and value
    char letter_;
    int next_variable_ = 0;
};

}  // namespace stretto
