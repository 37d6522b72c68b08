#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "simplify/strip_uses.h"

namespace stretto {

/// The graph that with_strips makes, and what of it holds the strip that is at hand.
class StripGraph {
public:
    /// Strips have `width` columns, but for the last.
    StripGraph(const Graph& from, const StripUses& uses, std::int64_t width);

    ValueId add(Node node);
    ValueId add(Expr expr, Type type);  ///< element-wise, rounded to the type
    std::int32_t load(Expr& expr, ValueId value) const;
    [[nodiscard]] const Type& type(ValueId value) const { return to_[value].type; }

    /// What has become of a value.
    [[nodiscard]] ValueId renamed(ValueId value) const { return renamed_[value.index()]; }
    void rename(std::size_t value, ValueId other) { renamed_[value] = other; }

    /// Computes the product for these columns; its results are stored where `stores` is set.
    void begin(Range strip, bool stores);
    /// An access of a wide value, whose coordinate `dim` runs along the columns, of its strip. That is stored.
    [[nodiscard]] Access in_strip(Access access, std::size_t dim);
    /// An expression of the product's results, whose coordinate `dim` runs along the columns, for those of the strip.
    [[nodiscard]] Expr of_strip(const Expr& expr, std::size_t dim);

    /// With the outputs and constants of the graph that it is made from. All their values have been renamed.
    [[nodiscard]] Graph take();

private:
    /// A value's strip, and its shape where it is stored.
    struct Strip {
        ValueId value;
        Shape shape;
    };

    ValueId add_product();
    /// The strip of a value, `made`, in the buffer that has been there the longest of those of its size, if there are enough.
    Strip in_buffer(ValueId value, ValueId made);
    Strip stored(ValueId value);  ///< of a wide value

    const Graph& from_;
    const StripUses& uses_;
    const Node& product_;
    const std::int64_t width_;
    Graph to_;
    std::vector<ValueId> renamed_;
    std::map<std::pair<DType, std::int64_t>, std::deque<ValueId>>
        buffers_;  ///< by type and size, the latest strip last
    Range strip_;
    std::map<ValueId, Strip> wide_;  ///< strips of wide values, the product's among them
};

}  // namespace stretto
