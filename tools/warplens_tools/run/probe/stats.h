// SPDX-License-Identifier: Apache-2.0
// Just enough statistics to know when to stop sampling; the verdict's own are Python's.
#pragma once

#include <vector>

namespace warplens {

double median(std::vector<double> values);  // NaN when empty

// The standard error of the median of log(a[i] / b[i]), from the median absolute deviation:
// 1.2533 (median of a normal sample) * 1.4826 * MAD / sqrt(n). Infinite below three pairs.
double ratio_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace warplens
