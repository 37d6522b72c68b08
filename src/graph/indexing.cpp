#include "graph/indexing.h"

#include <algorithm>

namespace stretto {

std::vector<bool> indexed_dims(const Tensor& x, const std::vector<std::optional<Tensor>>& indices) {
    std::vector<bool> indexed(x.rank(), false);
    for (std::size_t d = 0; d < indices.size(); ++d) indexed[d] = indices[d].has_value();
    return indexed;
}

Indexing indexing(const IndexMap& map, const std::vector<bool>& indexed, const Shape& spanned) {
    const auto first = std::find(indexed.begin(), indexed.end(), true);
    const auto last = std::find(indexed.rbegin(), indexed.rend(), true).base();
    // PyTorch puts the indices' dimensions first where whole dimensions lie between the indexed ones.
    const bool adjacent = std::find(first, last, false) == last;
    Indexing result;
    result.begin = adjacent ? static_cast<std::size_t>(first - indexed.begin()) : 0;
    result.count = spanned.size();
    result.map.offset = map.offset;
    for (std::size_t d = 0; d < map.dims.size(); ++d) {
        if (!indexed[d]) {
            result.map.dims.push_back(map.dims[d]);
            continue;
        }
        const Atom digit = map.dims[d].front();
        result.indirect.push_back({digit.stride, digit.extent});
    }
    for (std::size_t i = 0; i < spanned.size(); ++i) {
        result.map = inserted_dim(result.map, result.begin + i, spanned[i]);
    }
    result.shape = result.map.shape();
    return result;
}

}  // namespace stretto
