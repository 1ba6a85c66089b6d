// The probe's pure parts, tested without a GPU. "probe_test job FILE" prints a job as it was read.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "compare.h"
#include "job.h"
#include "record.h"
#include "rounding.h"
#include "rule.h"
#include "stats.h"

using namespace warplens;

static int failures = 0;
#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            std::printf("line %d: %s\n", __LINE__, #condition);             \
            ++failures;                                                     \
        }                                                                   \
    } while (0)

static Expected floats(const std::vector<float>& values) {
    Expected e;
    e.element = Element::f32;
    e.bytes.resize(values.size() * 4);
    std::memcpy(e.bytes.data(), values.data(), e.bytes.size());
    e.written = std::make_shared<std::vector<std::uint8_t>>(values.size(), 1);
    return e;
}

static Difference against(const Expected& e, const std::vector<float>& values, double length = 1) {
    return compare(e, reinterpret_cast<const std::uint8_t*>(values.data()), {8, length});
}

static void flags_are_no_places() {
    const std::uint32_t flags[] = {0, 1, 1, 0}, values[] = {7, 7, 8, 9}, places[] = {3, 2, 1, 0}, far[] = {4, 1, 2, 3};
    auto column = [](const std::uint32_t* of) {
        Column made{};
        made.bytes = reinterpret_cast<const std::uint8_t*>(of), made.count = 4, made.width = 4;
        return made;
    };
    CHECK(!ends_differ({column(flags), column(values)}));
    CHECK(ends_differ({column(places), column(values)}));
    CHECK(!ends_differ({column(far), column(values)}));
}

static void no_gain_is_asked_for_where_data_are_alike() {
    auto of = [](Variant::Kind kind) {
        Variant made{};
        made.kind = kind;
        return made;
    };
    for (Variant::Kind kind : {Variant::redrawn, Variant::permuted, Variant::less}) CHECK(!of(kind).uneven());
    for (Variant::Kind kind : {Variant::vacant, Variant::blanks, Variant::skewed, Variant::stepped, Variant::specials})
        CHECK(of(kind).uneven());
    Variant both = of(Variant::less);
    both.beside = {of(Variant::vacant)};
    CHECK(both.uneven());
}

static void a_grid_follows_from_numbers_by_its_rule() {
    const unsigned launched[] = {8, 12, 40};
    auto with = [](std::int64_t n, std::int64_t m) {
        return [n, m](std::size_t i) { return i < 2 ? std::optional<std::int64_t>(i ? m : n) : std::nullopt; };
    };
    GridRule rule;
    rule.along(0, "p0 255 + 256 /");
    rule.along(1, "p0,1 167 up");
    rule.along(2, "? p1 *");
    const GridRule held = rule.held_to(with(2000, 20), launched);  // 2000 / 167 rounded up is 12, 2 * 20 is 40
    CHECK(!held.empty());
    unsigned grid[3] = {};
    const auto made = GridRule::made, none = GridRule::none;
    CHECK(held.apply(with(257, 3), grid) == made && grid[0] == 2 && grid[1] == 2 && grid[2] == 6);
    CHECK(held.apply(with(1, 1000), grid) == made && grid[0] == 1 && grid[1] == 6 && grid[2] == 2000);
    CHECK(held.apply(with(0, 20), grid) == none);       // a launch of no blocks
    CHECK(held.apply(with(100, 40000), grid) == none);  // more than a card takes along z
    GridRule cut;  // for multiples of 256 alone
    const unsigned all[] = {8, 1, 1};
    cut.along(0, "p0 256 /"), cut.along(1, "1"), cut.along(2, "1");
    const GridRule whole = cut.held_to(with(2048, 1), all);
    CHECK(whole.apply(with(1024, 1), grid) == made && grid[0] == 4);
    CHECK(whole.apply(with(2047, 1), grid) == GridRule::rest);
    CHECK(cut.held_to(with(2047 + 256, 1), all).apply(with(2047, 1), grid) == made);  // the program leaves a rest itself
    CHECK(whole.apply(with(INT64_MIN, 1), grid) == none);
    CHECK(held.tells_apart(with(2000, 20), with(2001, 20)) && !held.tells_apart(with(2000, 20), with(2000, 20)));
    CHECK(!whole.tells_apart(with(2048, 1), with(2048, 2)));
    CHECK(cut.apply(with(2047, 1), grid) == made && grid[0] == 7);  // held to no launch: as it stands
    CHECK(rule.held_to(with(2001, 21), launched).empty());  // not what the program launches
    GridRule other;
    other.along(0, "p7 1 *"), other.along(1, "12"), other.along(2, "40");
    CHECK(other.held_to(with(8, 1), launched).empty());     // of a parameter that is no number
    bool refused = false;
    try {
        other.along(0, "p0 sin");
    } catch (const std::runtime_error&) {
        refused = true;
    }
    CHECK(refused);
}

static void floats_are_compared_within_their_bound() {
    const Expected e = floats({1, -2, 1e6f, 0});
    CHECK(against(e, {1, -2, 1e6f, 0}).right());
    CHECK(against(e, {1.0000001f, -2, 1e6f, 0}).right());
    CHECK(!against(e, {1.00001f, -2, 1e6f, 0}).right());
    CHECK(against(e, {1.00001f, -2, 1e6f, 0}, 1e4).right());
    CHECK(!against(e, {1, -2, 1e6f, 1e-30f}).right());  // nothing but zero is within a relative bound of zero
    CHECK(against(e, {1.00001f, -2, 1e6f, 0}).first == 0);
    CHECK(against(e, {1, -2.1f, 1e6f, 0}).first == 4);
}

// A row's sum of squares, of which most are one number, errs one way in one order, and in 32 parts does not; all results of
// the row share it, so that the time of one tells nothing of its length.
static void a_sum_that_a_row_shares_may_err_one_way_where_terms_are_alike() {
    constexpr int kRow = 3072, kLanes = 32;
    auto term = [](int i) { return i % 4 ? 0.3721f : 0.3f + 0.0004f * static_cast<float>(i % 97); };
    float in_order = 0, lanes[kLanes] = {}, in_parts = 0;
    for (int i = 0; i < kRow; ++i) in_order += term(i), lanes[i % kLanes] += term(i);
    for (float lane : lanes) in_parts += lane;
    Expected e = floats({1 / std::sqrt(in_order)});
    const float got = 1 / std::sqrt(in_parts);
    auto right = [&](double terms) { return compare(e, reinterpret_cast<const std::uint8_t*>(&got), {8, 8, terms}).right(); };
    CHECK(!right(kRow));
    e.alike = true;
    CHECK(right(kRow));
    CHECK(!right(8));
}

static void a_double_that_comes_of_floats_has_their_precision() {
    const double right = 3, got = 3.0000002;
    Expected e;
    e.element = Element::f64;
    e.bytes.resize(8);
    std::memcpy(e.bytes.data(), &right, 8);
    e.written = std::make_shared<std::vector<std::uint8_t>>(1, 1);
    CHECK(!compare(e, reinterpret_cast<const std::uint8_t*>(&got), {8, 1}).right());
    e.widened = true;
    CHECK(compare(e, reinterpret_cast<const std::uint8_t*>(&got), {8, 1}).right());
}

static void what_the_result_was_summed_from_widens_the_bound() {
    Expected e = floats({1e-6f});
    CHECK(!against(e, {1.1e-6f}).right());
    e.magnitude = {1.0f};
    CHECK(against(e, {1.1e-6f}).right());
    e.magnitude.clear();
    e.spread = {1e-7f};
    CHECK(against(e, {1.3e-6f}).right());
    CHECK(!against(e, {1.6e-6f}).right());
}

static void nothing_passes_for_a_nan_or_infinity() {
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = INFINITY;
    const Expected e = floats({1, nan, infinite});
    CHECK(against(e, {1, nan, infinite}).right());
    CHECK(against(e, {nan, nan, infinite}).nan == 1);
    CHECK(against(e, {1, 0, infinite}).nan == 1);
    CHECK(against(e, {1, nan, -infinite}).nan == 1);
    CHECK(against(e, {1, nan, 3e38f}).nan == 1);
}

static void zeros_never_pass() {
    Expected e = floats({1e-9f, -1e-9f, 2e-9f});
    e.magnitude = {1, 1, 1};  // all rounding noise, so that every bound holds
    const Difference d = against(e, {0, 0, 0});
    CHECK(d.wrong == 0);
    CHECK(d.blind && !d.right());
    const Difference seen = against(floats({1, -1, 2}), {0, 0, 0});
    CHECK(seen.wrong == 3 && seen.scale && !seen.right());
}

static void memory_the_baseline_never_writes_must_stay() {
    const Expected e = floats({1, 2});
    (*e.written)[1] = 0;
    CHECK(against(e, {1, 2.0000002f}).stray == 1);
    CHECK(against(e, {1.0000001f, 2}).right());
}

static void bytes_are_compared_as_they_are() {
    Expected e;
    e.element = Element::integer;
    e.bytes = {1, 2, 3, 4};
    e.written = std::make_shared<std::vector<std::uint8_t>>();
    const std::uint8_t same[] = {1, 2, 3, 4}, other[] = {1, 2, 9, 4};
    CHECK(compare(e, same, {}).right());
    CHECK(compare(e, other, {}).wrong == 1 && compare(e, other, {}).first == 2);
    CHECK(!compare(e, other, {}).as_floats);
}

static void floats_of_unknown_type_are_recognised() {
    Expected e = floats({1.5f, 3.25f});
    e.element = Element::other;
    e.written->clear();
    CHECK(against(e, {1.5000001f, 3.25f}).as_floats);
    CHECK(!against(e, {1.6f, 3.25f}).as_floats);
}

static void other_widths_are_read() {
    const std::uint16_t half = 0x3e00, tiny = 0x0001, brain = 0x3fc0;
    CHECK(load(Element::f16, reinterpret_cast<const std::uint8_t*>(&half)) == 1.5);
    CHECK(load(Element::f16, reinterpret_cast<const std::uint8_t*>(&tiny)) == std::ldexp(1, -24));
    CHECK(load(Element::bf16, reinterpret_cast<const std::uint8_t*>(&brain)) == 1.5);
}

static void repeats_and_moves_are_learned() {
    Expected e = floats({1, 2});
    const std::vector<float> again = {1.25f, 2};
    add_repeat(e, reinterpret_cast<const std::uint8_t*>(again.data()));
    CHECK(e.spread[0] == 0.25f && e.spread[1] == 0 && e.repeats);
    const double move = input_move(Element::f32);
    const float unit = static_cast<float>(move / std::sqrt(3.0));
    const std::vector<float> up = {1 + 4 * unit, 2.25f}, down = {1 - 4 * unit, 2.25f};
    add_moved(e, reinterpret_cast<const std::uint8_t*>(up.data()), reinterpret_cast<const std::uint8_t*>(down.data()), move, 1);
    CHECK(std::fabs(e.magnitude[0] - 4) < 0.01 && e.magnitude[1] == 0);
    CHECK(e.bend[0] < 1e-6 && e.bend[1] == 0.25f);
}

// Moves that cancel by chance say that a result was summed from nothing; more of them say what it was summed from.
static void more_moves_see_what_one_did_not() {
    std::vector<float> values(100, 1.0f), other = values;
    values[7] = 1e-6f;
    other[7] = values[7] + 1e-5f;
    Expected e = floats(values);
    const double move = input_move(Element::f32);
    const auto* same = reinterpret_cast<const std::uint8_t*>(values.data());
    add_moved(e, same, same, move, 1);
    settle(e, {8, 1});
    CHECK(against(e, other).wrong == 1);
    expect_pairs(e, 1, 4);
    std::vector<float> up = values, down = values;
    up[7] += 8 * static_cast<float>(move / std::sqrt(3.0)), down[7] -= 8 * static_cast<float>(move / std::sqrt(3.0));
    for (int i = 1; i < 4; ++i) add_moved(e, reinterpret_cast<const std::uint8_t*>(up.data()), reinterpret_cast<const std::uint8_t*>(down.data()), move, 4);
    settle(e, {8, 1});
    CHECK(std::fabs(e.magnitude[7] - 8 * std::sqrt(0.75)) < 0.05 && e.common.size() == 12);
    CHECK(against(e, other).right());
    other[9] += 1e-3f;
    CHECK(against(e, other).wrong == 1);
}

// A hundred results of which one jumps when inputs move: as few may jump in a candidate, and as far.
static void jumps_are_as_rare_as_the_baselines_own() {
    std::vector<float> values(100, 1.0f), up = values;
    up[7] = 1.5f;
    Expected e = floats(values);
    add_moved(e, reinterpret_cast<const std::uint8_t*>(up.data()), reinterpret_cast<const std::uint8_t*>(values.data()), input_move(Element::f32), 1);
    settle(e, {8, 1});
    auto changed = [&](std::size_t first, std::size_t count, float by) {
        std::vector<float> other = values;
        for (std::size_t i = first; i < first + count; ++i) other[i] += by;
        return against(e, other);
    };
    CHECK(changed(7, 1, 0.5f).right());
    CHECK(changed(40, 1, 0.5f).right());
    CHECK(changed(40, 2, 0.5f).wrong == 2);
    CHECK(changed(40, 1, 1.5f).wrong == 1);
}

static void a_coarser_rounding_is_no_rounding() {
    std::vector<float> values(100);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i) / 300;
    Expected e = floats(values);
    const auto* same = reinterpret_cast<const std::uint8_t*>(values.data());
    add_moved(e, same, same, input_move(Element::f32), 1);
    const Tolerance t{8, 1e6};
    settle(e, t);
    std::vector<float> other = values;
    for (float& v : other) v *= 1 + 1e-5f;
    const Difference all = compare(e, reinterpret_cast<const std::uint8_t*>(other.data()), t);
    CHECK(all.wrong == 0 && all.coarse && !all.right());
    for (std::size_t i = 5; i < other.size(); ++i) other[i] = values[i];
    CHECK(compare(e, reinterpret_cast<const std::uint8_t*>(other.data()), t).right());
}

// A field far below its like is a difference of terms as large as they are; another field is not.
static void fields_of_a_structure_keep_their_own_size() {
    std::vector<float> values;
    for (int i = 0; i < 60; ++i) values.insert(values.end(), {1e6f + static_cast<float>(i), 1.0f});
    values[10] = 0.01f;
    Expected e = floats(values);
    const auto* same = reinterpret_cast<const std::uint8_t*>(values.data());
    add_moved(e, same, same, input_move(Element::f32), 1);
    settle(e, {8, 1});
    std::vector<float> other = values;
    other[10] += 0.1f;
    CHECK(against(e, other).right());
    other[11] += 0.1f;
    CHECK(against(e, other).wrong == 1);
}

static void what_rounding_alone_decides_is_not_seen() {
    Expected e = floats({1e-9f, 2e-9f});
    CHECK(!sight_of(e, {8, 1}).blind());
    e.magnitude = {1, 1};
    CHECK(sight_of(e, {8, 1}).blind());
}

static void another_order_of_the_same_elements_is_known() {
    Expected e = floats({1, 2, 3});
    const std::vector<float> again = {3, 1, 2}, fourth = {3, 1, 4};
    add_repeat(e, reinterpret_cast<const std::uint8_t*>(again.data()));
    judge_spread(e, {8, 1});
    CHECK(!e.repeats && e.unordered);
    CHECK(against(e, {2, 3, 1}).right());
    CHECK(!against(e, {2, 3, 4}).right());
    Expected other = floats({1, 2, 3});
    add_repeat(other, reinterpret_cast<const std::uint8_t*>(fourth.data()));
    judge_spread(other, {8, 1});
    CHECK(!other.repeats && !other.unordered);
    Expected rounding = floats({1, 2, 3});
    const std::vector<float> close = {1.0000001f, 2, 3};
    add_repeat(rounding, reinterpret_cast<const std::uint8_t*>(close.data()));
    judge_spread(rounding, {8, 1});
    CHECK(rounding.repeats && !rounding.unordered);
}

static void poison_is_ordinary_and_only_where_results_were() {
    for (Element element : {Element::f32, Element::f64, Element::f16, Element::bf16}) {
        const std::size_t size = element_size(element);
        std::vector<std::uint8_t> bytes(8000, 1), written(8000 / size, 0);
        std::fill(written.begin(), written.begin() + static_cast<long>(4000 / size), std::uint8_t{1});
        poison(element, bytes.data(), written, 7);
        for (std::size_t at = 0; at < 4000; at += size) {
            const double value = std::fabs(load(element, bytes.data() + at));
            CHECK(value >= 0.25 && value < 4);
        }
        CHECK(std::vector<std::uint8_t>(bytes.begin() + 4000, bytes.end()) == std::vector<std::uint8_t>(4000, 1));
    }
}

static void large_buffers_are_compared_whole() {
    std::vector<float> values(3000001, 1.0f);
    const Expected e = floats(values);
    CHECK(against(e, values).right());
    for (std::size_t at : {std::size_t{0}, std::size_t{1499999}, std::size_t{3000000}}) {
        values[at] = 2;
        CHECK(against(e, values).wrong == 1 && against(e, values).first == at * 4);
        values[at] = 1;
    }
}

static void medians_and_errors() {
    CHECK(median({3, 1, 2}) == 2 && median({4, 1, 2, 3}) == 2.5 && std::isnan(median({})));
    CHECK(ratio_error({1, 1, 1, 1}, {2, 2, 2, 2}) == 0);
    CHECK(std::isinf(ratio_error({1, 1}, {1, 1})));
    CHECK(ratio_error({1, 1.1, 0.9, 1, 1.05}, {1, 1, 1, 1, 1}) > 0.01);
}

std::string beside_of(const Variant& v) {
    std::string all;
    for (const Variant& b : v.beside) all += (all.empty() ? "[" : ",[") + std::to_string(b.kind) + "," + std::to_string(b.target) + "]";
    return "[" + all + "]";
}

static int print_job(const char* path) {
    const Job job = read_job(path);
    std::string candidates, variants, parameters;
    for (const Candidate& c : job.candidates) {
        Record r("candidate");
        r.add("id", c.id).add("cubin", c.cubin).add("entry", c.entry).add("shared", double(c.shared));
        r.extent("grid", c.grid[0], c.grid[1], c.grid[2]).extent("block", c.block[0], c.block[1], c.block[2]);
        r.add("stands", c.kernel).add("launches", c.launches).add("by_rule", c.by_rule).add("pointers", double(c.parameters.size()));
        std::string shapes;
        for (const auto& [from, to] : c.shapes) {
            const unsigned words[] = {to.grid[0], to.grid[1], to.grid[2], to.block[0], to.block[1], to.block[2], to.shared};
            std::string numbers;
            for (unsigned word : words) numbers += (numbers.empty() ? "" : ",") + std::to_string(word);
            shapes += (shapes.empty() ? "[" : ",[") + numbers + "]";
        }
        r.raw("shapes", "[" + shapes + "]");
        std::string variables;
        for (const Global& g : c.globals)
            variables += (variables.empty() ? "" : ",") + ("[" + quoted(g.name) + "," + quoted(g.live) + "]");
        candidates += (candidates.empty() ? "" : ",") + r.raw("variables", "[" + variables + "]").json();
    }
    for (const Variant& v : job.variants)
        variants += (variants.empty() ? "" : ",") + Record("variant").add("name", v.name).add("scale", v.scale).add("noise", v.noise).add("kind", double(v.kind)).add("target", double(v.target)).raw("beside", beside_of(v)).json();
    for (const Parameter& p : job.parameters) {
        std::string fields;
        for (const Field& f : p.fields)
            fields += (fields.empty() ? "[" : ",[") + std::to_string(p.stride) + "," + std::to_string(f.offset) + "," +
                      std::to_string(f.width) + "," + std::to_string(int(f.pointer)) + "]";
        parameters += (parameters.empty() ? "" : ",") + Record("parameter").add("index", double(p.index)).add("element", double(int(p.element))).add("constant", p.constant).add("table", p.table).add("scalar", p.scalar).add("width", double(p.width)).raw("fields", "[" + fields + "]").json();
    }
    Record r("job");
    r.add("mode", job.mode).add("result", job.result).add("kernel", job.kernel).add("helpers", job.helpers);
    r.add("launch", job.launch).add("seed", job.seed).extent("grid", job.grid[0], job.grid[1], job.grid[2]);
    r.extent("block", job.block[0], job.block[1], job.block[2]).add("shared", std::uint64_t{job.shared});
    r.add("options", double(job.options.size()));
    r.raw("candidates", "[" + candidates + "]").raw("variants", "[" + variants + "]").raw("parameters", "[" + parameters + "]");
    std::printf("%s\n", r.json().c_str());
    return 0;
}

int main(int count, char** arguments) {
    if (count == 3 && !std::strcmp(arguments[1], "job")) {
        try {
            return print_job(arguments[2]);
        } catch (const std::exception& error) {
            std::printf("%s\n", error.what());
            return 1;
        }
    }
    a_double_that_comes_of_floats_has_their_precision();
    flags_are_no_places();
    no_gain_is_asked_for_where_data_are_alike();
    a_grid_follows_from_numbers_by_its_rule();
    floats_are_compared_within_their_bound();
    a_sum_that_a_row_shares_may_err_one_way_where_terms_are_alike();
    what_the_result_was_summed_from_widens_the_bound();
    nothing_passes_for_a_nan_or_infinity();
    zeros_never_pass();
    memory_the_baseline_never_writes_must_stay();
    bytes_are_compared_as_they_are();
    floats_of_unknown_type_are_recognised();
    other_widths_are_read();
    repeats_and_moves_are_learned();
    more_moves_see_what_one_did_not();
    jumps_are_as_rare_as_the_baselines_own();
    a_coarser_rounding_is_no_rounding();
    fields_of_a_structure_keep_their_own_size();
    what_rounding_alone_decides_is_not_seen();
    another_order_of_the_same_elements_is_known();
    poison_is_ordinary_and_only_where_results_were();
    large_buffers_are_compared_whole();
    medians_and_errors();
    return failures != 0;
}
