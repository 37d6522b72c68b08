#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stretto::cli {

/// Shows on a terminal's stderr what is being done and for how long, while it lives. Elsewhere it shows nothing.
class Status {
public:
    explicit Status(std::string text);
    ~Status();
    Status(const Status&) = delete;
    Status& operator=(const Status&) = delete;

private:
    void show();

    std::string text_;
    std::mutex mutex_;
    std::condition_variable finished_;
    bool done_ = false;
    std::thread thread_;
};

/// On stderr, beside the results.
void print_warnings(const std::vector<std::string>& warnings);

}  // namespace stretto::cli
