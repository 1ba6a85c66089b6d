// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <chrono>
#include <stdexcept>

namespace warplens {
namespace {

std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

}  // namespace

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", c);
            out += escape;
        } else {
            out += static_cast<char>(c);
        }
    }
    return out + "\"";
}

Record& Record::raw(const std::string& key, const std::string& json) {
    if (!body_.empty()) body_ += ",";
    body_ += quoted(key) + ":" + json;
    return *this;
}

Record& Record::add(const std::string& key, const std::string& value) { return raw(key, quoted(value)); }
Record& Record::add(const std::string& key, double value) { return raw(key, number(value)); }
Record& Record::add(const std::string& key, std::uint64_t value) { return raw(key, std::to_string(value)); }
Record& Record::add(const std::string& key, bool value) { return raw(key, value ? "true" : "false"); }

Record& Record::add(const std::string& key, const std::vector<double>& values) {
    std::string list;
    for (double value : values) list += (list.empty() ? "" : ",") + number(value);
    return raw(key, "[" + list + "]");
}

Record& Record::extent(const std::string& key, unsigned x, unsigned y, unsigned z) {
    return raw(key, "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]");
}

void Results::open(const std::string& path) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file_ < 0) throw std::runtime_error("cannot write " + path);
}

void Results::write(const Record& record) {
    const std::string line = record.json() + "\n";
    for (size_t at = 0; at < line.size();) {
        ssize_t n = ::write(file_, line.data() + at, line.size() - at);
        if (n <= 0) return;
        at += static_cast<size_t>(n);
    }
}

void Results::pulse() {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (seconds < said_ + 1) return;
    said_ = seconds;
    write(Record("pulse"));
}

}  // namespace warplens
