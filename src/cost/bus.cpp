#include "cost/bus.h"

#include <algorithm>

namespace stretto {

void Bus::advance(double now) {
    const double passed = std::max(now - now_, 0.0);
    if (busy()) {
        clock_ += passed * bandwidth_ / static_cast<double>(transfers_.size());
        busy_time_ += passed;
    }
    now_ = std::max(now, now_);
}

void Bus::start(double now, double bytes, std::size_t owner) {
    advance(now);
    transfers_.push({clock_ + bytes, started_++, owner});
}

double Bus::next_end() const {
    const double left = std::max(transfers_.top().end - clock_, 0.0);
    return now_ + left * static_cast<double>(transfers_.size()) / bandwidth_;
}

std::size_t Bus::finish_next() {
    advance(next_end());
    const std::size_t owner = transfers_.top().owner;
    transfers_.pop();
    return owner;
}

}  // namespace stretto
