#include "backends/reference/access.h"

#include <algorithm>
#include <array>

#include "backends/reference/convert.h"

namespace stretto {
namespace {

/// Calls `use(lane, first, stride, count)` for the longest regular unmasked stretches of `offsets`.
template <class Use>
void for_each_stretch(std::span<const std::int64_t> offsets, Use&& use) {
    const auto lanes = static_cast<std::int64_t>(offsets.size());
    for (std::int64_t lane = 0; lane < lanes;) {
        const std::int64_t first = offsets[lane];
        if (first == kMasked) {
            ++lane;
            continue;
        }
        std::int64_t end = lane + 1;
        const std::int64_t stride = end < lanes && offsets[end] != kMasked ? offsets[end] - first : 0;
        while (end < lanes && offsets[end] != kMasked && offsets[end] == offsets[end - 1] + stride) ++end;
        use(lane, first, stride, end - lane);
        lane = end;
    }
}

}  // namespace

CompiledAccess::CompiledAccess(const Access& access)
    : buffer_(access.source), type_(access.type), offset_(access.map.offset), indirect_(access.indirect) {
    for (const std::vector<Atom>& atoms : access.map.dims) {
        std::vector<Digit> digits;
        std::int64_t inner = 1;
        for (std::size_t d = atoms.size(); d-- > 0;) {
            digits.push_back({inner, atoms[d]});
            inner *= atoms[d].extent;
        }
        if (digits.empty()) digits.push_back({});
        dims_.push_back(std::move(digits));
    }
}

std::int64_t CompiledAccess::offset_in_dim(std::size_t dim, std::int64_t coordinate) const {
    std::int64_t offset = 0;
    for (const Digit& digit : dims_[dim]) {
        const std::int64_t x = coordinate / digit.inner % digit.atom.extent;
        if (x < digit.atom.lo || x >= digit.atom.hi) return kMasked;
        offset += x * digit.atom.stride;
    }
    return offset;
}

std::int64_t CompiledAccess::at(std::span<const std::int64_t> coordinate) const {
    std::int64_t offset = offset_;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        const std::int64_t part = offset_in_dim(d, coordinate[d]);
        if (part == kMasked) return kMasked;
        offset += part;
    }
    return offset;
}

std::optional<Run> CompiledAccess::run(const Block& block) const {
    if (!block.coordinates.empty() || !indirect_.empty()) return std::nullopt;
    const std::int64_t first = at(block.at);
    if (first == kMasked) return std::nullopt;
    if (block.dim < 0 || block.lanes == 1) return Run{first, 0};
    const std::int64_t begin = block.at[block.dim];
    std::int64_t stride = 0;
    for (const Digit& digit : dims_[block.dim]) {
        const std::int64_t x = begin / digit.inner % digit.atom.extent;
        if (digit.inner == 1) {
            if (x + block.lanes > digit.atom.hi) return std::nullopt;
            stride = digit.atom.stride;
        }
    }
    return Run{first, stride};
}

void CompiledAccess::add_dim_of_consecutive(const Block& block, std::int64_t* out) const {
    const std::vector<Digit>& digits = dims_[block.dim];
    const std::int64_t begin = block.at[block.dim];
    const Digit& innermost = digits.front();
    for (std::int32_t lane = 0; lane < block.lanes;) {
        const std::int64_t x = (begin + lane) % innermost.atom.extent;
        const auto count =
            static_cast<std::int32_t>(std::min<std::int64_t>(innermost.atom.extent - x, block.lanes - lane));
        std::int64_t outer = 0;
        for (std::size_t d = 1; d < digits.size() && outer != kMasked; ++d) {
            const std::int64_t y = (begin + lane) / digits[d].inner % digits[d].atom.extent;
            outer =
                y < digits[d].atom.lo || y >= digits[d].atom.hi ? kMasked : outer + y * digits[d].atom.stride;
        }
        for (std::int32_t i = 0; i < count; ++i) {
            const bool masked = outer == kMasked || x + i < innermost.atom.lo || x + i >= innermost.atom.hi;
            std::int64_t& offset = out[lane + i];
            offset = masked || offset == kMasked ? kMasked : offset + outer + (x + i) * innermost.atom.stride;
        }
        lane += count;
    }
}

void CompiledAccess::add_dim(std::size_t dim, const std::int64_t* coordinate, std::int32_t lanes,
                             std::int64_t* out) const {
    for (std::int32_t lane = 0; lane < lanes; ++lane) {
        if (out[lane] == kMasked) continue;
        const std::int64_t part = offset_in_dim(dim, coordinate[lane]);
        out[lane] = part == kMasked ? kMasked : out[lane] + part;
    }
}

void CompiledAccess::offsets(const Block& block, std::span<const std::int64_t* const> indirect,
                             std::int64_t* out) const {
    if (!block.coordinates.empty()) {
        std::fill_n(out, block.lanes, offset_);
        for (std::size_t d = 0; d < dims_.size(); ++d) {
            add_dim(d, block.coordinates.data() + d * kLanes, block.lanes, out);
        }
    } else {
        std::int64_t uniform = offset_;
        for (std::size_t d = 0; d < dims_.size() && uniform != kMasked; ++d) {
            if (static_cast<std::int32_t>(d) == block.dim) continue;
            const std::int64_t part = offset_in_dim(d, block.at[d]);
            uniform = part == kMasked ? kMasked : uniform + part;
        }
        std::fill_n(out, block.lanes, uniform);
        if (block.dim >= 0 && uniform != kMasked) add_dim_of_consecutive(block, out);
    }
    for (std::size_t i = 0; i < indirect_.size(); ++i) {
        const auto [stride, extent] = indirect_[i];
        for (std::int32_t lane = 0; lane < block.lanes; ++lane) {
            if (out[lane] == kMasked) continue;
            const std::int64_t c = indirect[i][lane];
            out[lane] += std::clamp<std::int64_t>(c < 0 ? c + extent : c, 0, extent - 1) * stride;
        }
    }
}

void CompiledAccess::read(const Block& block, std::span<const std::int64_t* const> indirect, Buffers buffers,
                          Workspace& workspace, void* out, Domain domain) const {
    const std::byte* base = buffers[buffer_.index()];
    const auto size = static_cast<std::int64_t>(size_of(type_));
    if (const auto regular = run(block)) {
        if (workspace.guard) workspace.guard->read(buffer_, regular->first, regular->stride, block.lanes);
        read_lanes(base + regular->first * size, type_, regular->stride, block.lanes, out, domain);
        return;
    }
    std::array<std::int64_t, kLanes> offset;
    offsets(block, indirect, offset.data());
    auto* lanes = static_cast<std::byte*>(out);
    std::fill_n(lanes, block.lanes * lane_size(domain), std::byte{0});
    for_each_stretch({offset.data(), static_cast<std::size_t>(block.lanes)},
                     [&](std::int64_t lane, std::int64_t first, std::int64_t stride, std::int64_t count) {
                         if (workspace.guard) workspace.guard->read(buffer_, first, stride, count);
                         read_lanes(base + first * size, type_, stride, count,
                                    lanes + lane * lane_size(domain), domain);
                     });
}

void CompiledAccess::write(const Block& block, std::span<const std::int64_t* const> indirect, Buffers buffers,
                           Workspace& workspace, const void* values, Domain domain) const {
    std::byte* base = buffers[buffer_.index()];
    const auto size = static_cast<std::int64_t>(size_of(type_));
    if (const auto regular = run(block)) {
        if (workspace.guard) workspace.guard->write(buffer_, regular->first, regular->stride, block.lanes);
        write_lanes(values, domain, base + regular->first * size, type_, regular->stride, block.lanes);
        return;
    }
    std::array<std::int64_t, kLanes> offset;
    offsets(block, indirect, offset.data());
    const auto* lanes = static_cast<const std::byte*>(values);
    for_each_stretch({offset.data(), static_cast<std::size_t>(block.lanes)},
                     [&](std::int64_t lane, std::int64_t first, std::int64_t stride, std::int64_t count) {
                         if (workspace.guard) workspace.guard->write(buffer_, first, stride, count);
                         write_lanes(lanes + lane * lane_size(domain), domain, base + first * size, type_,
                                     stride, count);
                     });
}

void CompiledAccess::write_row(std::int64_t first, std::int64_t count, Buffers buffers, Workspace& workspace,
                               const void* values, Domain domain) const {
    const auto size = static_cast<std::int64_t>(size_of(type_));
    if (workspace.guard) workspace.guard->write(buffer_, first, 1, count);
    write_lanes(values, domain, buffers[buffer_.index()] + first * size, type_, 1, count);
}

}  // namespace stretto
