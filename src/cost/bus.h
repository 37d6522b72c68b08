#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace stretto {

/// Memory bandwidth shared in equal parts by all transfers under way.
///
/// A transfer of s bytes ends when every transfer under way since its start has got s bytes. So ends are kept on a
/// clock that advances by bytes per transfer, and nothing is recomputed when one joins or leaves.
class Bus {
public:
    explicit Bus(double bytes_per_us) : bandwidth_(bytes_per_us) {}

    [[nodiscard]] bool busy() const { return !transfers_.empty(); }
    void start(double now, double bytes, std::size_t owner);
    [[nodiscard]] double next_end() const;  ///< Requires: busy().
    std::size_t finish_next();  ///< Advances to next_end() and returns the owner. Requires: busy().
    [[nodiscard]] double busy_time() const { return busy_time_; }

private:
    struct Transfer {
        double end = 0;  ///< on the shared clock
        std::uint64_t number = 0;
        std::size_t owner = 0;
        bool operator>(const Transfer& other) const {
            return end != other.end ? end > other.end : number > other.number;
        }
    };

    void advance(double now);

    double bandwidth_;
    double now_ = 0;
    double clock_ = 0;  ///< bytes that a transfer under way since time 0 would have got
    double busy_time_ = 0;
    std::uint64_t started_ = 0;
    std::priority_queue<Transfer, std::vector<Transfer>, std::greater<>> transfers_;
};

}  // namespace stretto
