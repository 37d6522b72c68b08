#include "backends/reference/watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/reference/play.h"
#include "base/error.h"

namespace stretto {
namespace {

std::vector<std::int64_t> coordinate_of(const Shape& shape, std::int64_t element) {
    std::vector<std::int64_t> at(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
        at[d] = element % shape[d];
        element /= shape[d];
    }
    return at;
}

/// Does the box hold the coordinate and the `more` elements that follow it in the last dimension?
bool holds(const Box& box, const std::vector<std::int64_t>& at, std::int64_t more) {
    for (std::size_t d = 0; d < box.size(); ++d) {
        const std::int64_t last = at[d] + (d + 1 == box.size() ? more : 0);
        if (at[d] < box[d].begin || last >= box[d].end) return false;
    }
    return true;
}

bool in_boxes(const std::vector<Footprint>& footprints, BufferId buffer, const Shape& shape,
              std::int64_t element, std::int64_t more) {
    const std::vector<std::int64_t> at = coordinate_of(shape, element);
    return std::any_of(footprints.begin(), footprints.end(), [&](const Footprint& footprint) {
        return footprint.buffer == buffer && holds(footprint.box, at, more);
    });
}

}  // namespace

Watch::Watch(const Plan& plan) : plan_(plan), arena_(static_cast<std::size_t>(plan.arena_bytes), -1) {
    for (const Buffer& buffer : plan.graph.regions.buffers) {
        const bool output = buffer.role == BufferRole::Output;
        outputs_.emplace_back(output ? static_cast<std::size_t>(buffer.size_bytes()) : 0, -1);
    }
}

void Watch::begin(TaskId task, std::size_t worker) {
    task_ = task;
    worker_ = worker;
}

std::int32_t* Watch::writers(BufferId buffer) {
    const BufferRole role = plan_.graph.regions[buffer].role;
    if (role == BufferRole::Arena) return arena_.data() + plan_.offsets[buffer.index()];
    return role == BufferRole::Output ? outputs_[buffer.index()].data() : nullptr;
}

void Watch::fail(const char* verb, BufferId id, std::int64_t element, const char* why) const {
    const Buffer& buffer = plan_.graph.regions[id];
    const auto size = static_cast<std::int64_t>(size_of(buffer.dtype));
    throw RunError(fmt::format("task {} on worker {} {} bytes [{}, {}) of buffer {} '{}', {}",
                               task_name(plan_, task_), worker_, verb, element * size, (element + 1) * size,
                               id.value, buffer.name, why));
}

void Watch::check_bounds(const char* verb, BufferId buffer, std::int64_t first, std::int64_t last) const {
    const std::int64_t count = volume(plan_.graph.regions[buffer].shape);
    for (std::int64_t element : {first, last}) {
        if (element < 0 || element >= count) fail(verb, buffer, element, "which lie outside the buffer");
    }
}

void Watch::check_boxes(const char* verb, const std::vector<Footprint>& boxes, BufferId buffer,
                        std::int64_t first, std::int64_t stride, std::int64_t count) const {
    const Shape& shape = plan_.graph.regions[buffer].shape;
    if (stride == 0) count = 1;
    if (stride == 1 && in_boxes(boxes, buffer, shape, first, count - 1)) return;
    for (std::int64_t i = 0; i < count; ++i) {
        if (!in_boxes(boxes, buffer, shape, first + i * stride, 0)) {
            fail(verb, buffer, first + i * stride, "which its boxes do not cover");
        }
    }
}

void Watch::read(BufferId buffer, std::int64_t first, std::int64_t stride, std::int64_t count) {
    check_bounds("reads", buffer, first, first + (count - 1) * stride);
    const BufferRole role = plan_.graph.regions[buffer].role;
    if (role == BufferRole::Parameter || role == BufferRole::Constant || role == BufferRole::Input) return;
    check_boxes("reads", plan_.graph[task_].reads, buffer, first, stride, count);
    const std::int32_t* written = writers(buffer);
    if (written == nullptr) return;
    const auto size = static_cast<std::int64_t>(size_of(plan_.graph.regions[buffer].dtype));
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t element = first + i * stride;
        const std::int32_t* bytes = written + element * size;
        const bool all =
            std::all_of(bytes, bytes + size, [&](std::int32_t by) { return by == buffer.value; });
        if (!all) fail("reads", buffer, element, "which no task of this launch wrote before");
    }
}

void Watch::write(BufferId buffer, std::int64_t first, std::int64_t stride, std::int64_t count) {
    check_bounds("writes", buffer, first, first + (count - 1) * stride);
    const BufferRole role = plan_.graph.regions[buffer].role;
    if (role == BufferRole::Parameter || role == BufferRole::Constant || role == BufferRole::Input) {
        fail("writes", buffer, first, "which is read-only");
    }
    check_boxes("writes", plan_.graph[task_].writes, buffer, first, stride, count);
    std::int32_t* written = writers(buffer);
    if (written == nullptr) return;
    const auto size = static_cast<std::int64_t>(size_of(plan_.graph.regions[buffer].dtype));
    for (std::int64_t i = 0; i < count; ++i)
        std::fill_n(written + (first + i * stride) * size, size, buffer.value);
}

}  // namespace stretto
