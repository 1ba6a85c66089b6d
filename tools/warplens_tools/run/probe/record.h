// SPDX-License-Identifier: Apache-2.0
// Results as JSON lines. Each record is written by one write(2), so it outlives a fault or a kill.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace warplens {

class Record {
   public:
    explicit Record(const std::string& kind) { add("record", kind); }

    Record& add(const std::string& key, const std::string& value);
    Record& add(const std::string& key, const char* value) { return add(key, std::string(value ? value : "")); }
    Record& add(const std::string& key, double value);
    Record& add(const std::string& key, std::uint64_t value);
    Record& add(const std::string& key, bool value);
    Record& add(const std::string& key, const std::vector<double>& values);
    Record& extent(const std::string& key, unsigned x, unsigned y, unsigned z);
    Record& raw(const std::string& key, const std::string& json);

    std::string json() const { return "{" + body_ + "}"; }

   private:
    std::string body_;
};

std::string quoted(const std::string& text);  // as a JSON string; bytes that are no UTF-8 pass through

// Appends to the job's result file. Safe from any thread.
class Results {
   public:
    void open(const std::string& path);  // throws std::runtime_error
    void write(const Record& record);
    // Says that work goes on, at most once a second.
    void pulse();

   private:
    int file_ = -1;
    std::atomic<double> said_{0};
};

}  // namespace warplens
