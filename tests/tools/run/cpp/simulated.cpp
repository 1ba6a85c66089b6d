#include "simulated.h"

#include <algorithm>
#include <memory>

namespace simulated {
namespace {

using warplens::Element;

float f(double value) { return static_cast<float>(value); }

// Lower precisions of a float: rounded to half and bfloat16, cut to TF32.
float half(float v) { return static_cast<float>(static_cast<_Float16>(v)); }
float cut(float v, std::uint32_t mask, std::uint32_t add) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, 4);
    bits = (bits + add) & mask;
    std::memcpy(&v, &bits, 4);
    return v;
}
float brain(float v) { return cut(v, 0xffff0000u, 0x8000u); }
float tensor(float v) { return cut(v, 0xffffe000u, 0); }

// What the card's approximations leave: a few units in the last place off, by the bits of the value.
float approximate(float v, float ulps) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, 4);
    const float r = static_cast<float>((bits * 2654435761u) >> 8) * 0x1p-23f - 1.0f;
    return v * (1.0f + r * ulps * 0x1p-23f);
}

class Data {
   public:
    explicit Data(std::uint64_t seed) : random_(seed) {}
    Array uniform(std::size_t count, double low, double high) {
        std::uniform_real_distribution<double> d(low, high);
        Array values(count);
        for (double& v : values) v = f(d(random_));
        return values;
    }

   private:
    std::mt19937_64 random_;
};

Array constant(std::size_t count, double value) { return Array(count, f(value)); }

template <class Convert>
Kernel on_converted(Kernel kernel, Convert convert) {
    return [=](const Arrays& in, Array& out) {
        Arrays other = in;
        for (Array& array : other)
            for (double& v : array) v = convert(f(v));
        kernel(other, out);
    };
}

// Wrong in ways that any kernel may be.
void add_wrong(Program& p, bool precise = true) {
    const Kernel right = p.baseline;
    if (precise) {
        p.wrong.push_back({"half inputs", on_converted(right, half)});
        p.wrong.push_back({"bfloat16 inputs", on_converted(right, brain)});
        p.wrong.push_back({"tf32 inputs", on_converted(right, tensor)});
    }
    p.wrong.push_back({"zeros", [](const Arrays&, Array& out) { std::fill(out.begin(), out.end(), 0.0); }});
    p.wrong.push_back({"stale", [](const Arrays&, Array&) {}});
    p.wrong.push_back({"last result missing", [=](const Arrays& in, Array& out) {
                           const double stale = out.back();
                           right(in, out);
                           out.back() = stale;
                       }});
    if (p.outputs > 4)
        p.wrong.push_back({"results shifted by one", [=](const Arrays& in, Array& out) {
                               right(in, out);
                               std::rotate(out.begin(), out.begin() + 1, out.end());
                           }});
    p.wrong.push_back({"inputs shifted by one", [=](const Arrays& in, Array& out) {
                           Arrays other = in;
                           std::rotate(other[0].begin(), other[0].begin() + 1, other[0].end());
                           right(other, out);
                       }});
    p.wrong.push_back({"a thousandth too much", [=](const Arrays& in, Array& out) {
                           right(in, out);
                           for (double& v : out) v = rounded(p.output, v * 1.001);
                       }});
}

// --- sums -----------------------------------------------------------------------------------------------------

using Term = std::function<float(std::size_t)>;

float pairwise(const Term& term, std::size_t begin, std::size_t end) {
    if (end - begin == 1) return term(begin);
    const std::size_t middle = (begin + end) / 2;
    return pairwise(term, begin, middle) + pairwise(term, middle, end);
}

float lanes(const Term& term, std::size_t count, std::size_t width) {
    std::vector<float> sums(width, 0.0f);
    for (std::size_t k = 0; k < count; ++k) sums[k % width] += term(k);
    for (std::size_t step = width / 2; step; step /= 2)
        for (std::size_t i = 0; i < step; ++i) sums[i] += sums[i + step];
    return sums[0];
}

float forward(const Term& term, std::size_t count) {
    float sum = 0;
    for (std::size_t k = 0; k < count; ++k) sum += term(k);
    return sum;
}

float backward(const Term& term, std::size_t count) {
    float sum = 0;
    for (std::size_t k = count; k-- > 0;) sum += term(k);
    return sum;
}

using Sum = std::function<float(const float*, const float*, std::size_t)>;

// out[row] = sum over k of a[row][k] b[k]
Kernel product(std::size_t depth, Sum sum) {
    return [=](const Arrays& in, Array& out) {
        const std::vector<float> a(in[0].begin(), in[0].end()), b(in[1].begin(), in[1].end());
        for (std::size_t row = 0; row < out.size(); ++row) out[row] = sum(&a[row * depth], b.data(), depth);
    };
}

float fused(const float* a, const float* b, std::size_t n) {
    float sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum = std::fma(a[k], b[k], sum);
    return sum;
}

Program products(const std::string& name, std::size_t rows, std::size_t depth, Array a, Array b) {
    // a last term that is too small to be missed would make its loss right
    for (std::size_t r = 0; r < rows; ++r) a[(r + 1) * depth - 1] = 0.9375;
    b.back() = 0.9375;
    Program p{name, Element::f32, Element::f32, {std::move(a), std::move(b)}, rows, double(depth), {}, {}, {}};
    p.baseline = product(depth, fused);
    auto summed = [=](auto how) {
        return product(depth, [=](const float* x, const float* y, std::size_t n) {
            return how([=](std::size_t k) { return x[k] * y[k]; }, n);
        });
    };
    p.honest = {
        {"not fused", summed(forward)},
        {"backward", summed(backward)},
        {"pairwise", summed([](const Term& t, std::size_t n) { return pairwise(t, 0, n); })},
        {"4 lanes", summed([](const Term& t, std::size_t n) { return lanes(t, n, 4); })},
        {"32 lanes", summed([](const Term& t, std::size_t n) { return lanes(t, n, 32); })},
        {"in double", product(depth, [](const float* x, const float* y, std::size_t n) {
             double sum = 0;
             for (std::size_t k = 0; k < n; ++k) sum += double(x[k]) * y[k];
             return f(sum);
         })},
    };
    add_wrong(p);
    // of a sum that long the last term is within the rounding of the sum itself
    if (depth < 8192) p.wrong.push_back({"last term dropped", product(depth, [](const float* x, const float* y, std::size_t n) { return fused(x, y, n - 1); })});
    p.wrong.push_back({"half of the terms, doubled", product(depth, [](const float* x, const float* y, std::size_t n) { return 2 * fused(x, y, n / 2); })});
    return p;
}

// --- sums whose order is the scheduler's ------------------------------------------------------------------------

// Each row's terms are added as atomics add them: in the order in which `width` lanes happen to come.
Kernel added(std::size_t depth, std::size_t width, std::function<bool(std::size_t)> counts, float factor) {
    auto order = std::make_shared<std::mt19937_64>(99);
    return [=](const Arrays& in, Array& out) {
        std::vector<std::size_t> lanes(depth / width);
        for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = i;
        for (std::size_t row = 0; row < out.size(); ++row) {
            std::shuffle(lanes.begin(), lanes.end(), *order);
            float sum = 0;
            for (std::size_t lane : lanes) {
                float part = 0;
                for (std::size_t k = lane * width; k < (lane + 1) * width; ++k) part += counts(k) ? f(in[0][row * depth + k]) : 0;
                sum += part;
            }
            out[row] = sum * factor;
        }
    };
}

Program atomics(const std::string& name, std::size_t rows, std::size_t depth, std::size_t width, Array values, Element input) {
    for (double& v : values) v = rounded(input, v);
    Program p{name, input, Element::f32, {std::move(values)}, rows, 1e6, {}, {}, {}, true};
    auto all = [](std::size_t) { return true; };
    p.baseline = added(depth, width, all, 1);
    auto summed = [=](auto how) -> Kernel {
        return [=](const Arrays& in, Array& out) {
            for (std::size_t row = 0; row < out.size(); ++row) {
                const Array& x = in[0];
                out[row] = how([&x, row, depth](std::size_t k) { return f(x[row * depth + k]); }, depth);
            }
        };
    };
    p.honest = {
        {"atomics of wider parts", added(depth, 4 * width, all, 1)},
        {"atomics again", added(depth, width, all, 1)},
        {"32 lanes", summed([](const Term& t, std::size_t n) { return lanes(t, n, 32); })},
        {"256 lanes", summed([](const Term& t, std::size_t n) { return lanes(t, n, 256); })},
        {"pairwise", summed([](const Term& t, std::size_t n) { return pairwise(t, 0, n); })},
    };
    if (input == Element::f32) {
        p.wrong.push_back({"half inputs", on_converted(p.baseline, half)});
        p.wrong.push_back({"bfloat16 inputs", on_converted(p.baseline, brain)});
    }
    p.wrong.push_back({"zeros", [](const Arrays&, Array& out) { std::fill(out.begin(), out.end(), 0.0); }});
    p.wrong.push_back({"seven of eight warps, scaled", added(depth, width, [](std::size_t k) { return k / 32 % 8 != 3; }, 8.0f / 7)});
    p.wrong.push_back({"seven of eight warps", added(depth, width, [](std::size_t k) { return k / 32 % 8 != 3; }, 1)});
    p.wrong.push_back({"every other term, doubled", added(depth, width, [](std::size_t k) { return k % 2 == 0; }, 2)});
    p.wrong.push_back({"one term in a hundred dropped", added(depth, width, [](std::size_t k) { return k % 100 != 7; }, 100.0f / 99)});
    p.wrong.push_back({"one warp in a thousand dropped", added(depth, width, [](std::size_t k) { return k / 32 % 1000 != 7; }, 1)});
    return p;
}

// --- a stencil ------------------------------------------------------------------------------------------------

using Stencil = std::function<float(float, float, float, float, float)>;

Kernel five_points(std::size_t n, Stencil stencil, std::size_t low = 1) {
    return [=](const Arrays& in, Array& out) {
        const std::vector<float> x(in[0].begin(), in[0].end());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t row = i / n, col = i % n;
            const bool inside = row >= low && col >= low && row + low < n && col + low < n;
            out[i] = inside ? stencil(x[i], x[i - 1], x[i + 1], x[i - n], x[i + n]) : x[i];
        }
    };
}

Program stencil(const std::string& name, std::size_t n, Array field) {
    Program p{name, Element::f32, Element::f32, {std::move(field)}, n * n, 55, {}, {}, {}};
    p.baseline = five_points(n, [](float c, float w, float e, float s, float t) { return std::fma(-4.0f, c, w + e + s + t); });
    p.honest = {
        {"another order", five_points(n, [](float c, float w, float e, float s, float t) { return (w + e - 2 * c) + (s + t - 2 * c); })},
        {"not fused", five_points(n, [](float c, float w, float e, float s, float t) { return ((s + t) + (e + w)) - 4.0f * c; })},
        {"differences", five_points(n, [](float c, float w, float e, float s, float t) { return (w - c) + (e - c) + (s - c) + (t - c); })},
    };
    add_wrong(p);
    p.wrong.push_back({"one row short", five_points(n, [](float c, float w, float e, float s, float t) { return std::fma(-4.0f, c, w + e + s + t); }, 2)});
    p.wrong.push_back({"a neighbour twice", five_points(n, [](float c, float w, float e, float s, float) { return std::fma(-4.0f, c, w + e + s + s); })});
    return p;
}

Array waves(std::size_t n) {
    Array field(n * n);
    for (std::size_t i = 0; i < field.size(); ++i) field[i] = f(std::sin(0.01 * double(i % n)) * std::cos(0.013 * double(i / n)) + 2);
    return field;
}

// --- particles ------------------------------------------------------------------------------------------------

// Forces and energy as in examples/first/lennard_jones.cu, with literals of type Real.
template <class Real>
Kernel forces(float edge, bool backwards = false, float ulps = 0, std::size_t dropped = 0) {
    return [=](const Arrays& in, Array& out) {
        const std::vector<float> x(in[0].begin(), in[0].end());
        const std::size_t count = x.size() / 3;
        for (std::size_t i = 0; i < count; ++i) {
            float force[4] = {0, 0, 0, 0};
            for (std::size_t k = 0; k + dropped < count; ++k) {
                const std::size_t j = backwards ? count - 1 - k : k;
                float d[3], r2 = 0;
                for (int axis = 0; axis < 3; ++axis) {
                    d[axis] = x[3 * i + axis] - x[3 * j + axis];
                    d[axis] -= edge * std::rint(d[axis] * (1.0f / edge));
                    r2 = backwards ? r2 + d[axis] * d[axis] : std::fma(d[axis], d[axis], r2);
                }
                if (i == j || r2 >= 9.0f) continue;
                const float s2 = approximate(f(Real(1.0) / r2), ulps), s6 = s2 * s2 * s2;
                const float scale = f(Real(24.0) * s2 * s6 * (Real(2.0) * s6 - Real(1.0)));
                for (int axis = 0; axis < 3; ++axis) force[axis] = std::fma(scale, d[axis], force[axis]);
                force[3] += f(Real(4.0) * s6 * (s6 - Real(1.0)));
            }
            for (int axis = 0; axis < 4; ++axis) out[4 * i + axis] = axis < 3 ? force[axis] : 0.5f * force[axis];
        }
    };
}

Program particles(const std::string& name, int side, double jitter, std::uint64_t seed) {
    Array positions;
    Data data(seed);
    const Array noise = data.uniform(static_cast<std::size_t>(3 * side * side * side), -jitter, jitter);
    for (int i = 0; i < side * side * side; ++i)
        for (int c : {i % side, i / side % side, i / side / side}) positions.push_back(f(1.2f * c + noise[positions.size()]));
    const float edge = 1.2f * side;
    Program p{name, Element::f32, Element::f32, {positions}, positions.size() / 3 * 4, double(positions.size()), {}, {}, {}};
    p.baseline = forces<double>(edge);
    p.honest = {
        {"float literals", forces<float>(edge)},
        {"backward, not fused", forces<double>(edge, true)},
        {"approximate reciprocal", forces<float>(edge, false, 1)},
        {"all of it", forces<float>(edge, true, 2)},
    };
    add_wrong(p);
    p.wrong.push_back({"last particle dropped", forces<double>(edge, false, 0, 1)});
    return p;
}

// --- options --------------------------------------------------------------------------------------------------

template <class Real>
Real below(Real d, float ulps) {
    const Real k = Real(1.0) / (Real(1.0) + Real(0.2316419) * std::fabs(d));
    const Real tail = Real(0.39894228040143267794) * Real(approximate(f(std::exp(Real(-0.5) * d * d)), ulps)) *
                      (k * (Real(0.31938153) + k * (Real(-0.356563782) + k * (Real(1.781477937) + k * (Real(-1.821255978) + k * Real(1.330274429))))));
    return d > 0 ? Real(1.0) - tail : tail;
}

template <class Real>
Kernel options(float ulps = 0, bool reciprocal = false, bool fuse = false) {
    return [=](const Arrays& in, Array& out) {
        for (std::size_t i = 0; i < in[0].size(); ++i) {
            const Real s = f(in[0][i]), x = f(in[1][i]), t = f(in[2][i]), rate = 0.02f, volatility = 0.30f;
            const Real root = std::sqrt(t), spread = volatility * root;
            const Real drift = (rate + Real(0.5) * volatility * volatility) * t;
            const Real top = std::log(reciprocal ? s * (Real(1) / x) : s / x) + drift;
            const Real d1 = reciprocal ? top * (Real(1) / spread) : top / spread;
            const Real d2 = fuse ? std::fma(-volatility, root, d1) : d1 - spread;
            const Real n1 = below<Real>(d1, ulps), n2 = below<Real>(d2, ulps), discount = std::exp(-rate * t);
            out[2 * i] = f(fuse ? std::fma(s, n1, -(x * discount * n2)) : s * n1 - x * discount * n2);
            out[2 * i + 1] = f(x * discount * (Real(1) - n2) - s * (Real(1) - n1));
        }
    };
}

Program black_scholes(const std::string& name, std::size_t count, const Kernel& baseline, std::uint64_t seed) {
    Data data(seed);
    Arrays in = {data.uniform(count, 5, 30), data.uniform(count, 1, 100), data.uniform(count, 0.25, 10)};
    Program p{name, Element::f32, Element::f32, in, 2 * count, 83, baseline, {}, {}};
    p.honest = {
        {"in float", options<float>()},
        {"another exponential", options<float>(1)},
        {"reciprocals", options<float>(0, true)},
        {"fused", options<float>(0, false, true)},
        {"all of it", options<float>(2, true, true)},
        {"in double", options<double>()},
    };
    add_wrong(p);
    return p;
}

// --- rows -----------------------------------------------------------------------------------------------------

template <class Row>
Kernel by_row(std::size_t width, Row row) {
    return [=](const Arrays& in, Array& out) {
        const std::vector<float> x(in[0].begin(), in[0].end());
        std::vector<float> y(width);
        for (std::size_t at = 0; at + width <= x.size(); at += width) {
            row(&x[at], y.data());
            std::copy(y.begin(), y.end(), out.begin() + static_cast<long>(at));
        }
    };
}

Program softmax(std::size_t rows, std::size_t width, std::uint64_t seed) {
    Data data(seed);
    Program p{"softmax", Element::f32, Element::f32, {data.uniform(rows * width, -60, 8)}, rows * width, 200, {}, {}, {}};
    auto version = [=](int how) {
        return by_row(width, [=](const float* x, float* y) {
            const float most = *std::max_element(x, x + width);
            for (std::size_t i = 0; i < width; ++i) {
                y[i] = how == 1 ? std::exp2((x[i] - most) * 1.44269504f) : std::exp(x[i] - most);
                if (how == 3) y[i] = approximate(std::fabs(y[i]) < 0x1p-126f ? 0 : y[i], 2);
            }
            const Term term = [=](std::size_t k) { return y[k]; };
            const float sum = how ? lanes(term, width, 32) : forward(term, width);
            for (std::size_t i = 0; i < width; ++i) y[i] = how == 2 ? y[i] * (1.0f / sum) : y[i] / sum;
        });
    };
    p.baseline = version(0);
    p.honest = {{"lanes, exp2", version(1)}, {"reciprocal", version(2)}, {"approximate, flushed", version(3)}};
    add_wrong(p);
    p.wrong.push_back({"sum over one less", by_row(width, [=](const float* x, float* y) {
                           const float most = *std::max_element(x, x + width);
                           for (std::size_t i = 0; i < width; ++i) y[i] = std::exp(x[i] - most);
                           const float sum = forward([=](std::size_t k) { return y[k]; }, width - 1);
                           for (std::size_t i = 0; i < width; ++i) y[i] /= sum;
                       })});
    return p;
}

Program normalised(std::size_t rows, std::size_t width, double mean, std::uint64_t seed) {
    Data data(seed);
    Program p{"layer norm about " + std::to_string(int(mean)), Element::f32, Element::f32, {data.uniform(rows * width, mean - 1, mean + 1)}, rows * width, 120, {}, {}, {}};
    auto version = [=](int how) {
        return by_row(width, [=](const float* x, float* y) {
            const Term one = [=](std::size_t k) { return x[k]; }, square = [=](std::size_t k) { return x[k] * x[k]; };
            const auto n = static_cast<float>(width);
            const float mean = (how ? lanes(one, width, 8) : forward(one, width)) / n;
            const Term off = [=](std::size_t k) { return (x[k] - mean) * (x[k] - mean); };
            const float variance = how == 2 ? lanes(off, width, 8) / n : (how ? lanes(square, width, 8) : forward(square, width)) / n - mean * mean;
            const float inverse = how == 3 ? approximate(1.0f / std::sqrt(variance + 1e-5f), 2) : 1.0f / std::sqrt(variance + 1e-5f);
            for (std::size_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse;
        });
    };
    p.baseline = version(0);
    p.honest = {{"lanes", version(1)}, {"two passes", version(2)}, {"approximate root", version(3)}};
    add_wrong(p);
    return p;
}

Program scan(std::size_t rows, std::size_t width, std::uint64_t seed) {
    Data data(seed);
    Program p{"prefix sum", Element::f32, Element::f32, {data.uniform(rows * width, -1, 1)}, rows * width, 60, {}, {}, {}};
    auto version = [=](std::size_t block, bool drop) {
        return by_row(width, [=](const float* x, float* y) {
            float before = 0;
            for (std::size_t at = 0; at < width; at += block) {
                float sum = 0;
                for (std::size_t i = at; i < at + block; ++i) y[i] = before + (sum += drop && i == at + block - 1 ? 0 : x[i]);
                before += sum;
            }
        });
    };
    p.baseline = version(width, false);
    p.honest = {{"blocks of 16", version(16, false)}, {"blocks of 4", version(4, false)}};
    add_wrong(p);
    p.wrong.push_back({"last of each block dropped", version(16, true)});
    return p;
}

Program directions(std::size_t count, std::uint64_t seed) {
    Data data(seed);
    Program p{"normalize vectors", Element::f32, Element::f32, {data.uniform(3 * count, -5, 5)}, 3 * count, 40, {}, {}, {}};
    auto version = [](int how) {
        return by_row(3, [=](const float* x, float* y) {
            const float square = how == 1 ? x[2] * x[2] + (x[1] * x[1] + x[0] * x[0]) : std::fma(x[2], x[2], std::fma(x[1], x[1], x[0] * x[0]));
            const float root = std::sqrt(square), inverse = approximate(1.0f / root, 2);
            for (int i = 0; i < 3; ++i) y[i] = how == 2 ? x[i] * inverse : x[i] / root;
        });
    };
    p.baseline = version(0);
    p.honest = {{"not fused", version(1)}, {"rsqrt", version(2)}};
    add_wrong(p);
    return p;
}

// --- results that jump ----------------------------------------------------------------------------------------

Program levels(std::size_t count, std::uint64_t seed) {
    Data data(seed);
    Program p{"quantize", Element::f32, Element::f32, {data.uniform(count, -40, 40)}, count, 30, {}, {}, {}};
    auto version = [](int how, float more) {
        return by_row(1, [=](const float* x, float* y) {
            const float v = how == 1 ? std::fma(*x, 7.3f, 0.31f) : how == 2 ? (*x + 0.31f / 7.3f) * 7.3f : *x * 7.3f + 0.31f;
            *y = std::floor(v) * 0.5f + more;
        });
    };
    p.baseline = version(0, 0);
    p.honest = {{"fused", version(1, 0)}, {"factored", version(2, 0)}};
    add_wrong(p);
    p.wrong.push_back({"off by one level", version(0, 0.5f)});
    return p;
}

Program escape(std::size_t n, std::uint64_t seed) {
    Data data(seed);
    Program p{"escape time", Element::f32, Element::f32, {data.uniform(n * n, -2, 0.5), data.uniform(n * n, -1.2, 1.2)}, n * n, 500, {}, {}, {}};
    auto version = [](bool fuse, int limit) -> Kernel {
        return [=](const Arrays& in, Array& out) {
            for (std::size_t i = 0; i < out.size(); ++i) {
                const float a = f(in[0][i]), b = f(in[1][i]);
                float x = 0, y = 0;
                int k = 0;
                for (; k < limit && x * x + y * y < 4; ++k) {
                    const float z = fuse ? std::fma(x, x, std::fma(-y, y, a)) : x * x - y * y + a;
                    y = fuse ? std::fma(2 * x, y, b) : 2 * x * y + b;
                    x = z;
                }
                out[i] = f(k);
            }
        };
    };
    p.baseline = version(false, 64);
    p.honest = {{"fused", version(true, 64)}};
    add_wrong(p);
    p.wrong.push_back({"one step less", version(false, 63)});
    return p;
}

// --- other types ----------------------------------------------------------------------------------------------

Program doubles(std::size_t rows, std::size_t depth, std::uint64_t seed) {
    Data data(seed);
    Program p{"product in double", Element::f64, Element::f64, {data.uniform(rows * depth, -1, 1), data.uniform(depth, -1, 1)}, rows, double(depth), {}, {}, {}};
    auto version = [=](auto zero, bool backwards) -> Kernel {
        return [=](const Arrays& in, Array& out) {
            for (std::size_t r = 0; r < rows; ++r) {
                auto sum = zero;
                for (std::size_t k = 0; k < depth; ++k) {
                    const std::size_t j = backwards ? depth - 1 - k : k;
                    sum += static_cast<decltype(zero)>(in[0][r * depth + j]) * static_cast<decltype(zero)>(in[1][j]);
                }
                out[r] = sum;
            }
        };
    };
    p.baseline = version(0.0, false);
    p.honest = {{"backward", version(0.0, true)}};
    add_wrong(p);
    p.wrong.push_back({"in float", version(0.0f, false)});
    return p;
}

Program halves(std::size_t rows, std::size_t depth, std::uint64_t seed) {
    Data data(seed);
    Arrays in = {data.uniform(rows * depth, -1, 1), data.uniform(depth, -1, 1)};
    for (Array& array : in)
        for (double& v : array) v = rounded(Element::f16, v);
    Program p{"product of halves", Element::f16, Element::f16, in, rows, double(depth), {}, {}, {}};
    auto version = [=](auto zero, bool backwards) -> Kernel {
        return [=](const Arrays& arrays, Array& out) {
            for (std::size_t r = 0; r < rows; ++r) {
                auto sum = zero;
                for (std::size_t k = 0; k < depth; ++k) {
                    const std::size_t j = backwards ? depth - 1 - k : k;
                    sum = static_cast<decltype(zero)>(sum + f(arrays[0][r * depth + j]) * f(arrays[1][j]));
                }
                out[r] = rounded(Element::f16, sum);
            }
        };
    };
    p.baseline = version(0.0f, false);
    p.honest = {{"backward", version(0.0f, true)}};
    add_wrong(p, false);
    p.wrong.pop_back();  // a thousandth is one unit in the last place of a half
    p.wrong.push_back({"summed in half", version(_Float16(0), false)});
    p.wrong.push_back({"products rounded to half", [=](const Arrays& arrays, Array& out) {
                           for (std::size_t r = 0; r < rows; ++r) {
                               float sum = 0;
                               for (std::size_t k = 0; k < depth; ++k) sum += half(f(arrays[0][r * depth + k]) * f(arrays[1][k]));
                               out[r] = rounded(Element::f16, sum);
                           }
                       }});
    return p;
}

}  // namespace

double rounded(Element element, double value) {
    switch (element) {
        case Element::f64: return value;
        case Element::f32: return static_cast<float>(value);
        default: return static_cast<double>(static_cast<_Float16>(static_cast<float>(value)));
    }
}

double shortened(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, 8);
    bits &= ~0xffffffffffffull;
    std::memcpy(&value, &bits, 8);
    return value;
}

double filled(Element element, double value) {
    if (element == Element::f32) {
        const auto single = static_cast<float>(value);
        std::uint32_t bits;
        std::memcpy(&bits, &single, 4);
        bits = (bits & 0xffff0000u) | 0x6fffu;
        float full;
        std::memcpy(&full, &bits, 4);
        return full;
    }
    if (element != Element::f64) return value;
    std::uint64_t bits;
    std::memcpy(&bits, &value, 8);
    bits = (bits & ~0x1fffffffull) | 0x0fffffffull;
    std::memcpy(&value, &bits, 8);
    return value;
}

std::vector<Program> programs(std::uint64_t seed) {
    Data data(seed);
    return {
        products("product, any sign", 256, 512, data.uniform(256 * 512, -1, 1), data.uniform(512, -1, 1)),
        products("product, positive", 256, 512, data.uniform(256 * 512, 0, 1), data.uniform(512, 0, 1)),
        products("product, constant", 64, 1024, constant(64 * 1024, 0.1), constant(1024, 0.3)),
        products("product, few large", 128, 96, data.uniform(128 * 96, -1, 1), [] {
            Array b = constant(96, 0.01);
            b[3] = f(1e4);
            return b;
        }()),
        products("long sums", 2, 16384, data.uniform(2 * 16384, 0, 1), data.uniform(16384, 0, 1)),
        products("one sum", 1, 4096, data.uniform(4096, 0.5, 1), data.uniform(4096, 0.5, 1)),
        stencil("stencil, noise", 64, data.uniform(64 * 64, -1, 1)),
        stencil("stencil, smooth", 96, waves(96)),
        stencil("stencil, constant", 48, constant(48 * 48, 0.7)),
        particles("particles on a lattice", 6, 0, seed),
        particles("particles", 5, 0.1, seed + 1),
        black_scholes("Black-Scholes", 4096, options<float>(), seed),
        black_scholes("Black-Scholes in double", 4096, options<double>(), seed),
        softmax(32, 128, seed),
        normalised(32, 128, 0, seed),
        normalised(32, 128, 10, seed),
        scan(16, 256, seed),
        directions(1024, seed),
        levels(4096, seed),
        escape(48, seed),
        doubles(64, 128, seed),
        halves(64, 128, seed),
        atomics("sums by atomics", 4, 32768, 32, data.uniform(4 * 32768, 0, 1), Element::f32),
        atomics("one sum by atomics, any sign", 1, 65536, 1, data.uniform(65536, -1, 1), Element::f32),
        atomics("sums of halves by atomics", 4, 16384, 32, data.uniform(4 * 16384, 0, 1), Element::f16),
    };
}

double moved(Element element, double value, double scale, double move) {
    if (element != Element::f16 || scale != 1 || std::fabs(move) >= 0.05) return rounded(element, value * scale * (1 + move));
    const double step = std::exp2(std::max(std::ilogb(value), -14) - 9);
    return rounded(element, value + std::rint(value * move / step) * step);
}

}  // namespace simulated
