#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "graph/expr.h"

namespace stretto {

/// Where an operation came from, for messages.
struct Source {
    std::string module;  ///< e.g. "model.layers.3.mlp"
    std::string op;      ///< e.g. "aten.mul.Tensor"
    bool operator==(const Source&) const = default;
};

struct Type {
    DType dtype = DType::F32;
    Shape shape;  ///< Values are dense and row-major; views are index maps of their readers.
    bool operator==(const Type&) const = default;
};

/// What the caller binds to an input.
enum class Role : std::uint8_t {
    Parameter,  ///< constant between launches (weights)
    State,      ///< lives between launches, changed by updates
    Constant,   ///< part of the program
    User,       ///< given at each launch
};

struct Input {
    Role role = Role::User;
    std::string name;
    bool operator==(const Input&) const = default;
};

/// value[i] = expr(i), rounded to the value's dtype.
struct Pointwise {
    Expr expr;
    bool operator==(const Pointwise&) const = default;
};

enum class ReduceOp : std::uint8_t { Sum, Max, Min };

/// The part of a reduced dimension that counts for a result: begin <= j < end. Both are I64 and known on the device alone;
/// they are clamped to the dimension. `expected` is about how many j count for one result, for estimates.
struct Ragged {
    Access begin;
    Access end;
    std::int64_t expected = 0;
    bool operator==(const Ragged&) const = default;
};

/// value[i] = reduction over j of term(i, j); the iteration space is the value's shape, then `extents`. The first of the
/// extents may be ragged; its bounds vary with i.
struct Reduce {
    ReduceOp op = ReduceOp::Sum;
    Shape extents;
    Expr term;
    std::optional<Ragged> ragged = std::nullopt;
    bool operator==(const Reduce&) const = default;
};

/// value[b, m, n] = sum over k of a(b, m, n, k) * b(b, m, n, k), accumulated in F32 (F64 for F64). The
/// iteration space is [B, M, N, K]; a does not vary with n, b does not vary with m. Products of groups of rows, each with
/// a matrix of its own, are ragged: group and k together are the K of a row, and only its group's part counts. The bounds
/// vary with (b, m) only.
struct Contract {
    std::array<std::int64_t, 4> space{};
    Access a;
    Access b;
    std::optional<Ragged> ragged = std::nullopt;
    bool operator==(const Contract&) const = default;
};

/// One row of the context that attention takes from this step instead of from the buffers of its keys and values: for
/// s = `row` (counted like an indirect coordinate) the key is `key`, the value is `value`, rounded to the operand's
/// type. An empty expression leaves its operand as it is. Made by fuse, never by a front end.
struct FreshRow {
    Expr row;  ///< I64, varies with b only; empty where there is no fresh row
    Expr key;
    Expr value;
    [[nodiscard]] bool empty() const { return row.empty(); }
    bool operator==(const FreshRow&) const = default;
};

/// Softmax attention, online in F32. With `splits` = 0: value[b, h, q, d] = sum over s of softmax_s(scale * q.k + bias) * v. The
/// iteration space is [B, H, Q, S, D]. Query varies with (b, h, q, d), key and value with (b, h, s, d).
/// `mask` is empty or an expression over (b, h, q, s): Bool (true attends) or a float bias.
/// With `splits` > 1 (made by fuse, never by a front end) the value is the F32 tensor [splits, B, H, Q, D + 2] of
/// partial results that AttentionRegion describes.
struct Attention {
    std::array<std::int64_t, 5> space{};
    Access query;
    Access key;
    Access value;
    Expr mask;
    FreshRow fresh;  ///< over (b, h, s, d)
    double scale = 1;
    std::int64_t splits = 0;
    bool operator==(const Attention&) const = default;
};

/// The new value of `state`: equal to it except at target(i), which becomes expr(i), for i over `space`. The
/// results at expr's nodes `indices` are the target's indirect coordinates; the result of expr is its last
/// node.
struct Update {
    ValueId state;
    Shape space;
    Access target;  ///< source is `state`
    Expr expr;
    std::vector<std::int32_t> indices;
    bool operator==(const Update&) const = default;
};

struct Node {
    Type type;
    std::variant<Input, Pointwise, Reduce, Contract, Attention, Update> op;
    Source source;
    bool operator==(const Node&) const = default;
};

/// Do two constants have the same contents? Two absent ones do.
[[nodiscard]] bool same_bytes(const std::shared_ptr<const std::vector<std::byte>>& a,
                              const std::shared_ptr<const std::vector<std::byte>>& b);

/// One result of the program. A value that is `state_input`'s next state is written back to it.
struct Output {
    ValueId value;
    std::string name;
    ValueId state_input;  ///< valid for a state update, invalid for a result handed to the caller
    bool operator==(const Output&) const = default;
};

/// A tensor program in static single assignment: node i defines value i; operands have smaller ids.
struct Graph {
    std::vector<Node> nodes;
    std::vector<Output> outputs;
    /// Bytes of inputs of role Constant, by value id; shared so that graphs copy cheaply.
    std::vector<std::pair<ValueId, std::shared_ptr<const std::vector<std::byte>>>> constants;

    [[nodiscard]] const Node& operator[](ValueId id) const { return nodes.at(id.index()); }
    [[nodiscard]] Node& operator[](ValueId id) { return nodes.at(id.index()); }
    [[nodiscard]] const std::vector<std::byte>* constant(ValueId id) const;  ///< nullptr if it has no bytes
    bool operator==(const Graph& other) const;  ///< Compares the bytes of constants, not where they are.
};

/// The values that a node reads, without repetition, in order of first use.
[[nodiscard]] std::vector<ValueId> operands(const Node& node);

/// Replaces every operand of `node` by `renamed` of it.
void rename_operands(Node& node, const std::function<ValueId(ValueId)>& renamed);

/// Gives `to` the outputs and the constants of `from`, each of the value that is `renamed` of its own. Constants that are
/// renamed to no valid value are left out.
void copy_outputs_and_constants(const Graph& from, const std::function<ValueId(ValueId)>& renamed, Graph& to);

/// Throws InternalError naming the first node that breaks a rule of the structures above (order of operands,
/// ranks and extents of maps, types, ranges of node numbers, outputs).
void check(const Graph& graph);

}  // namespace stretto
