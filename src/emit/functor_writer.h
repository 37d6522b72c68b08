#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emit/cuda_file.h"
#include "emit/operand_slots.h"
#include "emit/statements.h"
#include "fuse/passes.h"

namespace stretto {

[[nodiscard]] CudaMember constant(const char* name, std::int64_t value);
[[nodiscard]] CudaMember flag(const char* name, bool value);

/// The device's type of how a reduction combines.
[[nodiscard]] const char* combine_of(ReduceOp op);

/// Positions and coordinates are 32-bit on the device: throws InternalError for a space of more.
void ensure_small(std::int64_t positions);

/// A coordinate variable, or "0" where it can only be that.
[[nodiscard]] std::string coordinate(const char* name, std::int64_t extent);

/// Writes the functor of one region, function by function.
class FunctorWriter {
protected:
    FunctorWriter(const RegionGraph& graph, const Region& region) : pointers_(graph, operand_slots(region)) {}

    void alias(const char* name, std::string type);
    void add_function(const char* result, const char* name, std::vector<CudaMember> parameters,
                      std::vector<std::string> body);

    /// Statements that split a row-major position into coordinates i<first>, …, whose names go to `names`.
    static std::vector<std::string> unravelled(const std::string& position, const Shape& shape,
                                               std::size_t first, std::vector<std::string>& names);

    /// `lines`, then statements that return `expr` as `type`.
    std::vector<std::string> returned(const Expr& expr, Scope scope, DType type,
                                      std::vector<std::string> lines);

    /// Makes the early loads of `expr` members of `early`, whose initializers are added to `values`.
    static Statements::Known known_early(Statements& loads, const Expr& expr, CudaStruct& early,
                                         std::string& values);

    /// The same of loads that `count` neighbours along dimension `dim` make in one; of neighbour `v`.
    static Statements::Known known_vectors(Statements& loads, const Expr& expr, std::size_t dim,
                                           std::int64_t count, CudaStruct& early, std::string& values);

    /// Either, of one position or of several.
    static Statements::Known known_group(Statements& loads, const Expr& expr, std::size_t dim,
                                         std::int64_t count, CudaStruct& early, std::string& values);

    /// Makes what `expr` has of values that are the same wherever maps of which `same` holds are members of `shared`, of which
    /// functions have an instance `name`; their initializers, evaluated by `body`, are added to `values`. What they are made
    /// of is known as well: nothing reads it.
    static Statements::Known known_shared(Statements& body, const Expr& expr, CudaStruct& shared,
                                          std::string& values, const std::string& name,
                                          const std::function<bool(const IndexMap&)>& same);

    /// Where a region's stores are evaluated.
    struct Place {
        Scope scope;
        std::vector<std::string> lines;   ///< statements that every function begins with
        std::vector<CudaMember> at;       ///< parameters that say where
        std::vector<CudaMember> results;  ///< parameters with the results of the main loop
        bool of_row = false;              ///< they are the same for neighbours
    };

    /// Splits the stores in two functions, so that what they load is on its way together, and before the results of the
    /// main loop are there: load(at) and store(at, results, early).
    void add_stores(const std::vector<Store>& list, const Place& place);

    /// Adds kVector = `count`, and where it is more than 1 the functions load_vector and store_vector for as many neighbours
    /// along dimension `dim` from the place on: they move what lies together in one access. Of a store's accumulator j,
    /// neighbour v is acc[j * kVector + v]. What is the same everywhere a task loads once, by uniform().
    /// kGathers says whether groups load from places that data names.
    void add_vector_stores(const std::vector<Store>& list, const Place& place, std::size_t dim,
                           std::int64_t count, const char* length = "kVector");

    /// Adds terms(Number<number>, Number<count>, at, results, values): the values, of type `acc`, of `count` neighbours along
    /// `dim`; neighbour v of the pass's reduction j is values[j * count + v]. Where `held`, it takes what hold(at) gave before
    /// the values.
    void add_terms(const Pass& pass, std::int64_t number, const Place& place, std::size_t dim,
                   std::int64_t count, DType acc, bool held = false);

    /// Adds Held and hold(at), what `count` neighbours along `dim` load in every pass, if that is the same in all of them, of
    /// several neighbours vectors only, and a lane has registers for `groups` of them.
    bool add_held(const std::vector<Pass>& passes, const Place& place, std::size_t dim, std::int64_t count,
                  std::int64_t groups);

    [[nodiscard]] CudaKind finished();

    Pointers pointers_;
    CudaKind kind_;
};

}  // namespace stretto
