#include "verify/verify.h"

#include "verify/accesses.h"
#include "verify/order.h"
#include "verify/streams.h"
#include "verify/structure.h"
#include "verify/words.h"

namespace stretto {

std::string_view name(Fault::Kind kind) {
    switch (kind) {
        case Fault::Kind::Malformed:
            return "malformed";
        case Fault::Kind::Cycle:
            return "cycle";
        case Fault::Kind::Unreachable:
            return "unreachable";
        case Fault::Kind::Race:
            return "race";
        case Fault::Kind::Uninitialized:
            return "uninitialized";
        case Fault::Kind::OutOfBounds:
            return "out of bounds";
        case Fault::Kind::DoubleWrite:
            return "double write";
        case Fault::Kind::MissingWrite:
            return "missing write";
        case Fault::Kind::Stream:
            return "stream";
        case Fault::Kind::Capacity:
            return "capacity";
        case Fault::Kind::Dependency:
            return "dependency";
    }
    return "unknown";
}

std::vector<Fault> verify(const Plan& plan) {
    using namespace verifying;
    FaultList faults;
    if (!check_structure(plan, faults)) return faults.take();
    check_words(plan, faults);
    check_streams(plan, faults);
    const Order order(plan);
    check_order(plan, order, faults);
    const std::vector<BufferUse> uses = collect_uses(plan, order);
    check_races(plan, order, uses, faults);
    check_arena(plan, order, uses, faults);
    // What a blocked plan never writes follows from the block; only the block is worth a report.
    if (order.completes()) check_coverage(plan, order, uses, faults);
    return faults.take();
}

}  // namespace stretto
