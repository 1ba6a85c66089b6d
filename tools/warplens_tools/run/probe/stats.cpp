// SPDX-License-Identifier: Apache-2.0
#include "stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace warplens {

double median(std::vector<double> values) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    auto middle = values.begin() + static_cast<long>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double ratio_error(const std::vector<double>& a, const std::vector<double>& b) {
    const size_t n = std::min(a.size(), b.size());
    if (n < 3) return std::numeric_limits<double>::infinity();
    std::vector<double> logs(n);
    for (size_t i = 0; i < n; ++i) logs[i] = std::log(a[i] / b[i]);
    const double centre = median(logs);
    for (double& value : logs) value = std::fabs(value - centre);
    return 1.2533 * 1.4826 * median(logs) / std::sqrt(static_cast<double>(n));
}

}  // namespace warplens
