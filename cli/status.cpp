#include "cli/status.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace stretto::cli {

Status::Status(std::string text) : text_(std::move(text)) {
    if (::isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { show(); });
}

Status::~Status() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    finished_.notify_one();
    thread_.join();
    fmt::print(stderr, "\r\033[K");
}

void Status::show() {
    std::unique_lock lock(mutex_);
    for (int seconds = 0; !done_; ++seconds) {
        fmt::print(stderr, "\r{} … {} s", text_, seconds);
        std::fflush(stderr);
        finished_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; });
    }
}

void print_warnings(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) fmt::print(stderr, "stretto: warning: {}\n", warning);
}

}  // namespace stretto::cli
