// SPDX-License-Identifier: Apache-2.0
#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "driver.h"

namespace warplens {
namespace {

// Where the baseline's repeats differ so many are made, but not of more results than that.
constexpr int kNoisyRepeats = 12;
constexpr std::size_t kManyResults = 4u << 20, kFewResults = 16384;
constexpr unsigned char kTail = 0x5a;
// Around copies of the program's memory, and how much of it.
constexpr unsigned char kAround = 0x7b;
constexpr std::size_t kPage = 2u << 20, kMostAround = 256u << 20, kLeftFree = 2u << 30;
// Sums are looked at in so many parts, where there are no more than so many of them; in more where all roundings go one
// way, which parts make less more slowly.
constexpr std::uint64_t kParts = 16, kManyParts = 64;
// The first of so many parts holds no element at all.
constexpr std::uint64_t kNothing = 1ull << 62;
constexpr std::size_t kFewSums = 1u << 20;
// Where somebody is about to be called wrong: of so many results, in so many parts at least, each of so many inputs' in
// turn, in so many seconds.
constexpr std::size_t kFewReferred = 16u << 20, kMostReferred = 2;
constexpr std::uint64_t kFewestParts = 16;
constexpr double kReferring = 2, kNear = 0.1;
// Where launches are slow or memory is large: sets of inputs beside the program's own, repeats and moved pairs are
// fewer, but not below these.
constexpr std::size_t kFewestCases = 3;
constexpr int kFewestRepeats = 3, kFewestPairs = 2;
// Above these, few input sets beside the program's own have to do, and fewer.
constexpr std::size_t kLargeResult = 64u << 20, kHugeResult = 512u << 20;

std::size_t room_around(const Block& block) { return std::min((block.bytes + kPage) / kPage * kPage, kMostAround); }

std::size_t floats_in(const std::vector<Stretch>& stretches) {
    std::size_t count = 0;
    for (const Stretch& s : stretches)
        if (is_floating(s.element)) count += s.held() / element_size(s.element);
    return count;
}

}  // namespace

Oracle::Oracle(const Job& job, const Launch& baseline, Memory& memory, CUstream stream, Results& results)
    : job_(job), baseline_(baseline), memory_(memory), stream_(stream), results_(results), inputs_(job, baseline, memory) {
    tolerance_.factor = job.option("tolerance_factor");
    tolerance_.lowered = job.option("lowered");
    limit_ = job.option("baseline_limit");
    budget_ = job.option("learn_seconds");
    memory_.fill_tails(kTail);
    initial_ = memory_.checksums();
    cases_.emplace_back();
    cases_[0].variant.name = "own";
    std::mt19937_64 random(job.seed);
    for (const Variant& variant : job.variants) {
        cases_.emplace_back();
        cases_.back().variant = variant;
        cases_.back().seed = random();
    }
    for (Case& c : cases_) c.arguments = inputs_.arguments(c.variant, c.seed);
    if (job.option("fill")) outputs_ = inputs_.outputs();
    find_written();
    learn_own();
    if (job_.option("poison")) find_pure();
    learn_variants();
}

void Oracle::prepare(const Case& c) {
    memory_.restore(dirty_);
    arguments_ = c.arguments.pointers.empty() ? nullptr : const_cast<void**>(c.arguments.pointers.data());
    inputs_.put(c.variant, c.seed);
}

Launch Oracle::given(Launch launch) const {
    if (arguments_) launch.parameters = arguments_;
    return launch;
}

double Oracle::run_once() {
    const double started = now();
    given(baseline_).go(stream_);
    wait(stream_, limit_);
    return now() - started;
}

Chunks Oracle::written_by(Case& c) {
    prepare(c);
    const Sums before = memory_.checksums();
    c.idle = !c.variant.own() && c.arguments.pointers.empty() && before == initial_;
    if (c.idle) return {};
    run_once();
    const Sums after = memory_.checksums();
    dirty_ = merged(dirty_, changed(initial_, after));
    dirty_ = merged(dirty_, changed(initial_, before));
    return changed(before, after);
}

// What the baseline writes when its outputs hold something else: results that were there already, from an
// earlier launch, are seen only so.
Chunks Oracle::filled_by_baseline() {
    memory_.restore(dirty_);
    for (const Stretch& s : outputs_) memory_.fill(s);
    const Sums before = memory_.checksums();
    run_once();
    const Sums after = memory_.checksums();
    dirty_ = merged(dirty_, merged(changed(initial_, before), changed(initial_, after)));
    return changed(before, after);
}

void Oracle::find_written() {
    Chunks chunks = written_by(cases_[0]);
    if (!outputs_.empty()) {
        stage("fill");
        chunks = merged(chunks, filled_by_baseline());
    }
    timed_ = chunks;
    // the first run also loads code; the second tells how long one takes
    prepare(cases_[0]);
    const double seconds = takes_ = run_once();
    limit_ = std::min(limit_, job_.option("hang_factor") * seconds + job_.option("hang_seconds"));
    const Chunks own = chunks;
    for (std::size_t i = 1; i < cases_.size();) {
        if (i >= kFewestCases && !affords(0.3)) {
            cases_.resize(i);
            break;
        }
        Case& c = cases_[i];
        stage("variant " + c.variant.name);
        const Chunks more = written_by(c);
        const bool stands = !c.idle && owns(more, own);
        if (stands) chunks = merged(chunks, more);
        if (!stands && !c.idle) dropped_.push_back(c.variant.name);
        i += stands;
        if (!stands) cases_.erase(cases_.begin() + static_cast<long>(i));
    }
    if (chunks.empty() && job_.launch) {
        stage("later launch");
        throw std::runtime_error("the launch changes no memory that an earlier one has not");
    }
    writable_ = chunks;
    dirty_ = merged(dirty_, writable_);
    add_stretches(chunks);
    set_length(seconds);
}

// Whether a launch may write there: in what it writes anyway, its parameters lead to, or is a variable. Inputs that
// have the baseline write elsewhere have led it out of bounds.
bool Oracle::owns(const Chunks& chunks, const Chunks& own) const {
    const auto& typed = inputs_.typed();
    return std::all_of(chunks.begin(), chunks.end(), [&](std::size_t chunk) {
        const Block& block = memory_.block_of(chunk);
        const auto index = static_cast<std::size_t>(&block - memory_.blocks.data());
        const bool led = std::any_of(typed.begin(), typed.end(), [&](const Typed& t) { return t.block == index && t.parameter >= 0; });
        const auto first = std::lower_bound(own.begin(), own.end(), block.first_chunk);
        return led || !block.variable.empty() || (first != own.end() && *first < block.first_chunk + block.chunks());
    });
}

void Oracle::add_stretches(const Chunks& chunks) {
    for (std::size_t i = 0; i < chunks.size();) {
        const Block& block = memory_.block_of(chunks[i]);
        std::size_t j = i + 1;
        while (j < chunks.size() && chunks[j] == chunks[j - 1] + 1 && chunks[j] < block.first_chunk + block.chunks()) ++j;
        const auto index = static_cast<std::size_t>(&block - memory_.blocks.data());
        const std::size_t stop = std::min((chunks[j - 1] - block.first_chunk + 1) * kChunk, block.bytes);
        std::size_t at = (chunks[i] - block.first_chunk) * kChunk;
        // whole structures, of which the last ones may have gone beyond what an earlier part of the block had
        if (!stretches_.empty() && stretches_.back().block == index) at = std::max(at, looked_at_);
        while (at < stop) {
            std::size_t end = 0;
            const Typed* said = inputs_.said_of(index, at, end);
            const std::size_t stride = said && !said->records.fields.empty() ? said->records.stride : 0;
            if (stride && at >= said->offset) at = add_members(*said, at, std::min(end, stop + stride));
            else at = add_stretch(index, at, stop);
        }
        looked_at_ = at;
        i = j;
    }
}

// Elements of one type, or as bytes; up to there.
std::size_t Oracle::add_stretch(std::size_t block, std::size_t at, std::size_t stop) {
    std::size_t end = 0, until = 0;
    const Element element = inputs_.type_at(block, at, end);
    const Typed* said = inputs_.said_of(block, at, until);
    end = std::min(end, stop);
    add({block, at, end - at, element, 0, 0, said && (at - said->offset) % std::max<std::size_t>(said->whole, 1) == 0 ? said->whole : 0});
    return end;
}

// Structures: their floats of one kind that lie side by side are a stretch of their own, and so is all between them. As
// bytes what is left of a structure at the end.
std::size_t Oracle::add_members(const Typed& said, std::size_t at, std::size_t stop) {
    const std::size_t stride = said.records.stride;
    at -= (at - said.offset) % stride;
    if (!stretches_.empty() && stretches_.back().block == said.block) at = std::max(at, looked_at_);
    const std::size_t count = (stop - at) / stride;
    if (!count) {
        add({said.block, at, stop - at, Element::other});
        return stop;
    }
    std::vector<Element> bytes(stride, Element::other);
    for (const Field& field : said.records.fields)
        for (std::size_t i = 0; i < element_size(field.element) && !field.pointer && is_floating(field.element); ++i)
            if (field.offset + i < stride) bytes[field.offset + i] = field.element;
    for (std::size_t from = 0; from < stride;) {
        std::size_t to = from + 1;
        while (to < stride && bytes[to] == bytes[from]) ++to;
        add({said.block, at + from, (count - 1) * stride + to - from, bytes[from], stride, to - from, to - from});
        from = to;
    }
    return at + count * stride;
}

void Oracle::add(const Stretch& stretch) {
    stretches_.push_back(stretch);
    written_.push_back(std::make_shared<std::vector<std::uint8_t>>(stretch.held() / element_size(stretch.element), 0));
}

void Oracle::set_length(double seconds) {
    CUdevice device;
    int processors = 0, khz = 0;
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    check(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
    check(cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device), "cuDeviceGetAttribute");
    // 128 additions per clock and SM is the most that ordinary units of any architecture since Volta do
    const double additions = 128.0 * processors * khz * 1e3 * seconds;
    const auto results = static_cast<double>(std::max<std::size_t>(1, floats_in(stretches_)));
    std::size_t floats = 0;
    for (const Area& area : inputs_.floats())
        floats += area.stretch.bytes / std::max(area.stretch.stride, element_size(area.stretch.element));
    const auto inputs = static_cast<double>(std::max<std::size_t>(1, floats));
    // a thread's chain of additions may also revisit inputs, but not outrun the card
    tolerance_.length = std::max(1.0, std::min(additions / results, std::max(inputs, 4096.0)));
}

// Runs the baseline on a case, keeps its results, and notes what it changes.
void Oracle::capture(Case& c) {
    prepare(c);
    before_.resize(stretches_.size());
    // what is known to be written throughout need not be compared with what lay there
    auto whole = [&](std::size_t i) { return !std::memchr(written_[i]->data(), 0, written_[i]->size()); };
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        if (whole(i)) continue;
        before_[i].resize(stretches_[i].held());
        memory_.read(stretches_[i], before_[i].data());
    }
    run_once();
    c.after = memory_.checksums();
    c.expected.clear();
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        Expected e;
        e.element = stretches_[i].element;
        e.bytes.resize(stretches_[i].held());
        e.whole = stretches_[i].whole;
        e.written = written_[i];
        memory_.read(stretches_[i], e.bytes.data());
        if (!whole(i)) mark_written(*e.written, e.element, before_[i].data(), e.bytes.data());
        c.expected.push_back(std::move(e));
    }
}

void Oracle::mark_filled() {
    memory_.restore(dirty_);
    for (const Stretch& s : outputs_) memory_.fill(s);
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        before_[i].resize(stretches_[i].held());
        memory_.read(stretches_[i], before_[i].data());
    }
    run_once();
    for (std::size_t i = 0; i < stretches_.size(); ++i)
        mark_written(*written_[i], stretches_[i].element, before_[i].data(), read_now(i));
}

const std::uint8_t* Oracle::read_now(std::size_t stretch) {
    scratch_.resize(std::max(scratch_.size(), stretches_[stretch].held()));
    memory_.read(stretches_[stretch], scratch_.data());
    return scratch_.data();
}

void Oracle::learn_own() {
    Case& own = cases_[0];
    capture(own);
    if (!outputs_.empty()) mark_filled();
    for (int i = 1; i < repeats_of(own, i); ++i) {
        prepare(own);
        run_once();
        const bool same = changed(own.after, memory_.checksums()).empty();
        for (std::size_t k = 0; !same && k < stretches_.size(); ++k) {
            const std::uint8_t* again = read_now(k);
            add_repeat(own.expected[k], again);
            shuffled_.resize(stretches_.size());
            if (own.expected[k].unordered && shuffled_[k].empty()) shuffled_[k].assign(again, again + stretches_[k].held());
        }
    }
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        stretches_[k].whole = own.expected[k].whole;
        if (own.expected[k].unordered) find_bounds(own.expected[k]);
    }
    learn_rounding(own);
    for (Expected& e : own.expected)
        if (!e.spread.empty()) judge_spread(e, tolerance_);
    learn_reference(own);
    find_records(own);
    blind_ = sight(own).blind();
}

Column Oracle::column(std::size_t stretch, const std::uint8_t* bytes) const {
    const Stretch& s = stretches_[stretch];
    std::size_t width = s.whole ? s.whole : is_floating(s.element) ? element_size(s.element) : 4;
    for (const auto& [integers, bytes_each, variable] : inputs_.integers()) {
        const bool inside = s.offset >= integers.offset && s.offset < integers.offset + integers.bytes;
        if (!s.whole && integers.block == s.block && inside && !integers.stride) width = bytes_each;
    }
    return {bytes, width, s.held() / width};
}

// Arrays that are appended to through one counter: their elements change places together from run to run.
void Oracle::find_records(const Case& own) {
    auto together = [&](const std::vector<std::size_t>& record) {
        std::vector<Column> first, again;
        for (std::size_t k : record) {
            first.push_back(column(k, own.expected[k].bytes.data()));
            again.push_back(column(k, shuffled_[k].data()));
        }
        return same_rows(first, again);
    };
    for (std::size_t k = 0; k < shuffled_.size(); ++k) {
        if (shuffled_[k].empty() || !own.expected[k].unordered) continue;
        bool found = false;
        for (auto& record : records_) {
            record.push_back(k);
            if ((found = together(record))) break;
            record.pop_back();
        }
        if (!found) records_.push_back({k});
    }
    shuffled_.clear();
}

// How many repeats there shall be, after so many.
int Oracle::repeats_of(const Case& own, int done) const {
    const auto asked = static_cast<int>(job_.option("repeats"));
    if (done >= kFewestRepeats && !affords(0.5)) return done;
    // few repeats say little of a noise that is there
    const bool noisy = std::any_of(own.expected.begin(), own.expected.end(),
                                   [](const Expected& e) { return !e.spread.empty() || e.unordered; });
    return done >= kFewestRepeats && noisy && floats_in(stretches_) <= kManyResults ? std::max(asked, kNoisyRepeats) : asked;
}

int Oracle::moved_pairs(bool own) const {
    // many results have many like them to learn from, of all sets of inputs together
    const int wanted = own || floats_in(stretches_) < kFewResults ? pairs_for(floats_in(stretches_)) : 1;
    const double share = 0.1 * budget_ / std::max(takes_, 1e-9);
    return wanted <= kFewestPairs || share > 2.0 * wanted ? wanted : std::max(kFewestPairs, static_cast<int>(share / 2));
}

// How far results move when every input moves a little, up and down: see `rounding.h`.
void Oracle::learn_rounding(Case& c) {
    if (!inputs_.floats().empty() && floats_in(stretches_) && job_.option("perturb") != 0) {
        stage("moved inputs");
        double move = 0;
        const int pairs = moved_pairs(c.variant.own());
        up_.resize(stretches_.size());
        for (const Area& area : inputs_.floats()) move = std::max(move, input_move(area.stretch.element));
        for (const Stretch& s : stretches_)
            if (is_floating(s.element)) move = std::max(move, input_move(s.element));
        for (int i = 0; i < pairs; ++i) {
            const std::uint64_t seed = job_.seed + 7919u * static_cast<unsigned>(i);
            run_moved(c, move, seed);
            for (std::size_t k = 0; k < stretches_.size(); ++k) {
                if (!is_floating(stretches_[k].element)) continue;
                up_[k].resize(stretches_[k].held());
                memory_.read(stretches_[k], up_[k].data());
            }
            run_moved(c, -move, seed);
            for (std::size_t k = 0; k < stretches_.size(); ++k)
                if (is_floating(stretches_[k].element)) add_moved(c.expected[k], up_[k].data(), read_now(k), move, pairs);
        }
    }
    for (Expected& e : c.expected) settle(e, tolerance_);
}

// The results where inputs are added up in so many parts: the floats that the launch only reads, those of one area or of
// all, are zero but for one part after another, and what they come to is added up exactly. What comes of zeros alone is
// in every part: what lay there before, where the launch adds to it. A sum, or a product's terms, is the same so;
// anything else is not, and shows it.
std::vector<std::vector<double>> Oracle::added_up(const Case& c, std::uint64_t parts, std::size_t area) {
    std::vector<std::vector<double>> sums(stretches_.size());
    auto add = [&](std::uint64_t part, std::uint64_t of, double share) {
        prepare(c);
        inputs_.keep_part(part, of, area);
        dirty_ = merged(dirty_, changed(initial_, memory_.checksums()));
        run_once();
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            if (!is_floating(stretches_[k].element)) continue;
            const std::uint8_t* now = read_now(k);
            const std::size_t size = element_size(stretches_[k].element);
            sums[k].resize(stretches_[k].held() / size);
            for (std::size_t i = 0; i < sums[k].size(); ++i) sums[k][i] += share * load(stretches_[k].element, now + i * size);
        }
    };
    add(0, kNothing, 1 - static_cast<double>(parts));
    for (std::uint64_t part = 0; part < parts; ++part) add(part, parts, 1);
    return sums;
}

// Long sums of floats in one place are off by far more than their order tells: a sum that has grown large takes no more
// of small terms. In parts they are off by less, the less the more parts there are. It shows where their order varies,
// and, of sums in one order, on inputs far from zero, whose roundings all go one way; elsewhere it is asked when
// somebody is about to be called wrong.
void Oracle::learn_reference(Case& c) {
    const bool varies = std::any_of(c.expected.begin(), c.expected.end(), [](const Expected& e) { return !e.spread.empty(); });
    const bool grows = varies || c.variant.kind == Variant::shifted;
    const std::uint64_t parts = varies ? kParts : kManyParts;
    const bool few = floats_in(stretches_) <= kFewSums && takes_ * 1.5 * parts < 0.2 * budget_;
    if (!grows || !few || !job_.option("perturb") || c.variant.odd()) return;
    refer(c, parts, Inputs::all_areas);
}

void Oracle::refer(Case& c, std::uint64_t parts, std::size_t area) {
    results_.pulse();
    const auto some = added_up(c, parts / 2, area), more = added_up(c, parts, area);
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        Expected& e = c.expected[k];
        if (more[k].empty() || e.unordered || !e.reference.empty()) continue;
        double apart = 0, off = 0;
        const std::size_t size = element_size(e.element);
        for (std::size_t i = 0; i < more[k].size(); ++i) {
            apart += std::fabs(more[k][i] - some[k][i]);
            off += std::fabs(load(e.element, e.bytes.data() + i * size) - more[k][i]);
        }
        // that it is a sum shows in that twice the parts change it by no more than a share of what the whole is off by
        if (std::isfinite(off) && apart <= 0.25 * off) e.reference = more[k];
    }
}

Outcome Oracle::reconsider(const Case& of, const Outcome& first) {
    Case& c = cases_[static_cast<std::size_t>(&of - cases_.data())];
    const Difference& d = first.difference;
    const bool near = first.state == std::string("wrong") && !d.stray && !d.nan && d.relative < kNear;
    if (!near || c.variant.odd() || !job_.option("perturb") || (!c.referenced && referring_ > kReferring)) return first;
    const double each = std::max(takes_, 1e-5) * 1.6;
    std::uint64_t parts = kManyParts;
    while (parts > kFewestParts && each * 1.5 * static_cast<double>(parts) > kReferring / 2) parts /= 2;
    if (each * 1.5 * static_cast<double>(parts) > kReferring || floats_in(stretches_) > kFewReferred) return first;
    const Chunks differing = changed(c.after, memory_.checksums());
    std::vector<Bytes> got(stretches_.size());
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        const std::uint8_t* now = read_now(k);
        got[k].assign(now, now + stretches_[k].held());
    }
    if (!c.referenced) {
        c.referenced = true;
        memory_.unbind();
        if (!recover()) return first;
        auto lacks = [&] {
            return std::any_of(c.expected.begin(), c.expected.end(), [](const Expected& e) { return is_floating(e.element) && e.reference.empty(); });
        };
        std::vector<std::size_t> areas = inputs_.largest_read();
        areas.resize(std::min(areas.size(), kMostReferred));
        areas.push_back(Inputs::all_areas);
        const double started = now();
        for (std::size_t area : areas)
            if (lacks() && now() - started < kReferring / 2) refer(c, parts, area);
        referring_ += now() - started;
    }
    const Outcome again = weigh(c, differing, [&](std::size_t k) { return got[k].data(); });
    return again.reason.empty() ? again : first;
}

// A copy of a block as it is, with as much around it as it is long; 0 where there is no room for one.
CUdeviceptr Oracle::copied_elsewhere(const Block& block) {
    const std::size_t around = room_around(block), all = block.bytes + 2 * around;
    CUdeviceptr& there = elsewhere_[static_cast<std::size_t>(&block - memory_.blocks.data())];
    std::size_t free = 0, total = 0;
    check(cuMemGetInfo(&free, &total), "cuMemGetInfo");
    if (!there && (all + kLeftFree > free || cuMemAlloc(&there, all) != CUDA_SUCCESS)) return there = 0;
    check(cuMemsetD8Async(there, kAround, all, stream_), "filling what is around a copy");
    check(cuMemcpyDtoDAsync(there + around, block.at, block.bytes, stream_), "copying a block");
    return there + around;
}

// Whether the results rest on memory that the launch was given alone: the same comes of copies that lie elsewhere, with
// something else before and behind them. Numbers that are changed may lead a kernel into its neighbours.
bool Oracle::stays_inside(const Case& c) {
    const bool numbers = c.variant.of_integers() || (c.variant.of_numbers() && !c.variant.of_other_values());
    if (!numbers || !baseline_.parameters) return true;
    prepare(c);
    std::map<const Block*, CUdeviceptr> copies;
    for (const Inputs::Lead& lead : inputs_.leads()) {
        const Block* block = memory_.find(lead.address);
        if (!block || !block->variable.empty() || copies.count(block)) continue;
        if (!(copies[block] = copied_elsewhere(*block))) return true;
    }
    const Given given = inputs_.moved_elsewhere(c.arguments, [&](CUdeviceptr address) {
        const auto found = copies.find(memory_.find(address));
        return found == copies.end() ? address : found->second + (address - found->first->base);
    });
    Launch launch = baseline_;
    launch.parameters = const_cast<void**>(given.pointers.data());
    launch.go(stream_);
    wait(stream_, limit_);
    bool same = true;
    for (std::size_t k = 0; same && k < stretches_.size(); ++k) {
        const Stretch& s = stretches_[k];
        const auto found = copies.find(&memory_.blocks[s.block]);
        if (found == copies.end()) continue;
        scratch_.resize(std::max(scratch_.size(), s.held()));
        memory_.read_at(found->second, s, scratch_.data());
        same = compare(c.expected[k], scratch_.data(), tolerance_).right();
    }
    dirty_ = merged(dirty_, changed(initial_, memory_.checksums()));
    return same;
}

void Oracle::run_moved(const Case& c, double move, std::uint64_t seed) {
    prepare(c);
    inputs_.move(move, seed);
    // what moving changes is put back by the next restore
    dirty_ = merged(dirty_, changed(initial_, memory_.checksums()));
    run_once();
}

Sight Oracle::sight(const Case& c) const {
    Sight all;
    for (const Expected& e : c.expected) {
        const Sight here = sight_of(e, tolerance_);
        all.all += here.all;
        all.hidden += here.hidden;
    }
    return all;
}

// Outputs the baseline only writes give the same results whatever lay there before.
void Oracle::find_pure() {
    stage("poison");
    std::vector<Bytes> original;
    std::vector<bool> poisoned(stretches_.size(), true);
    memory_.restore(dirty_);
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        original.emplace_back(stretches_[i].held());
        memory_.read_saved(stretches_[i], original[i].data());
        Bytes filled = original[i];
        const std::uint64_t seed = job_.seed * 0x2545f4914f6cdd1dull + i * 0x9e3779b97f4a7c15ull;
        poison(stretches_[i].element, filled.data(), *written_[i], seed);
        memory_.write_saved(stretches_[i], filled.data());
    }
    // the first try finds what is read; the second shows that the rest does not depend on it
    if (!poisoned_runs_agree(original, poisoned) && !poisoned_runs_agree(original, poisoned)) {
        for (std::size_t i = 0; i < stretches_.size(); ++i) memory_.write_saved(stretches_[i], original[i].data());
        poisoned.assign(stretches_.size(), false);
    }
    // what was poisoned is no longer as the program left it, whatever the baseline did to it on its own inputs
    memory_.restore(dirty_);
    initial_ = memory_.checksums();
    for (std::size_t i = 0; i < stretches_.size(); ++i)
        if (poisoned[i]) pure_bytes_ += stretches_[i].held();
    prepare(cases_[0]);
    run_once();
    cases_[0].after = memory_.checksums();
}

bool Oracle::poisoned_runs_agree(const std::vector<Bytes>& original, std::vector<bool>& poisoned) {
    prepare(cases_[0]);
    run_once();
    bool agree = true;
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        if (compare(cases_[0].expected[i], read_now(i), tolerance_).right()) continue;
        agree = false;
        poisoned[i] = false;
        memory_.write_saved(stretches_[i], original[i].data());
    }
    return agree;
}

// Whether half of the results at least are ordinary numbers.
bool Oracle::mostly_clean(const Case& c) const {
    std::uint64_t count = 0, unclean = 0;
    for (const Expected& e : c.expected) {
        // what 16-bit results are cut to says something, too
        if (!is_floating(e.element) || element_size(e.element) == 2) continue;
        count += e.bytes.size() / element_size(e.element);
        unclean += count_unclean(e.element, e.bytes.data(), e.bytes.size());
    }
    return 2 * unclean <= count;
}

void Oracle::learn_variants() {
    std::size_t bytes = 0;
    for (const Stretch& s : stretches_) bytes += s.held();
    // of large results as many as the time for learning is worth: every candidate is compared on each
    const auto more = static_cast<std::size_t>(std::min(budget_, 1e3) * (bytes > kHugeResult ? 0.5 : 2));
    const std::size_t most = bytes > kLargeResult ? (bytes > kHugeResult ? 2 : 3) + more : cases_.size();
    if (cases_.size() > most) cases_.resize(most);
    // of NaN and infinity in results those count that the inputs' zeros do not explain: a row of zeros that is divided
    // by its sum is NaN whatever the order it was added up in
    auto unclean = [&](const Case& c, bool mean) {
        std::uint64_t count = 0;
        for (const Expected& e : c.expected) count += count_unclean(e.element, e.bytes.data(), e.bytes.size(), mean);
        return count;
    };
    for (std::size_t i = 0; i < stretches_.size(); ++i)
        changed_bytes_ += element_size(stretches_[i].element) *
                          static_cast<std::size_t>(std::count(written_[i]->begin(), written_[i]->end(), 1));
    for (std::size_t i = 1; i < cases_.size();) {
        if ((i >= kFewestCases && !affords(1)) || (i > 1 && !affords(3))) {
            cases_.resize(i);
            break;
        }
        Case& c = cases_[i];
        stage("variant " + c.variant.name);
        capture(c);
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            // repeats of the program's own inputs speak for all; their spread grows with the results
            const Expected& own = cases_[0].expected[k];
            const double grown = own.spread.empty() ? 1 : growth(own, c.expected[k]);
            c.expected[k].repeats = own.repeats;
            c.expected[k].unordered = own.unordered;
            // one spike's place in the order decides how much of the rest is lost, in the baseline too
            c.expected[k].alike = c.variant.alike();
            c.expected[k].precise = c.variant.kind != Variant::spikes && !c.variant.alike();
            for (float value : own.spread) c.expected[k].spread.push_back(static_cast<float>(std::min(value * grown, 1e38)));
        }
        learn_rounding(c);
        learn_reference(c);
        prepare(c);
        // what lies behind allocations' ends is another: results that follow from it were read out of bounds
        memory_.fill_tails(static_cast<unsigned char>(~kTail));
        run_once();
        memory_.fill_tails(kTail);
        // inputs on which rounding alone may change the results wholly tell nothing, unless the program's own do too
        const bool seen = !sight(c).blind();
        const bool clean = unclean(c, c.variant.empties()) <= unclean(cases_[0], c.variant.empties());
        const bool odd = c.variant.odd() && !clean, partial = !clean && !odd && mostly_clean(c);
        for (Expected& e : c.expected) e.odd = odd, e.partial = partial;
        if ((clean || odd || partial) && (seen || blind_ || odd) && verify(c).state == std::string("right") && stays_inside(c)) {
            blind_ = blind_ && !seen;
            ++i;
        } else {
            dropped_.push_back(c.variant.name);
            cases_.erase(cases_.begin() + static_cast<long>(i));
        }
    }
    for (const Case& c : cases_) lowers_ = lowers_ || c.variant.shortened();
}

bool Oracle::recover() {
    memory_.fill_tails(kTail);
    memory_.restore(dirty_);
    Chunks left = changed(initial_, memory_.checksums());
    if (left.empty()) return true;
    memory_.restore(left);
    return changed(initial_, memory_.checksums()).empty();
}

}  // namespace warplens
