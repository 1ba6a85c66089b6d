// SPDX-License-Identifier: Apache-2.0
// What the baseline writes, and its results there.
#include "oracle.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>

#include "driver.h"

namespace warplens {
namespace {

// Of more than so many chunks of results, so many, so many together.
constexpr std::size_t kMostLookedAt = 768, kTogether = 8;
// A set of inputs on which launches take so many times as long, and so much of the time for learning, is not learned.
constexpr double kSlow = 4, kSlowShare = 0.02;
// Of the kernel's own launches on others' inputs none is waited for longer than so many on its own take.
constexpr double kPatience = 8;

}  // namespace

Chunks Oracle::written_by(Case& c) {
    if ((c.idle = changes_nothing(c))) return {};
    prepare(c);
    // what other numbers lead to no other inputs may lead to: what it writes with the value that lies there shows here
    if (!c.arguments.pointers.empty()) turn_outputs(1);
    const Sums before = looked();
    c.idle = !c.variant.own() && c.arguments.pointers.empty() && !c.grid[0] && before == initial_;
    // few blocks may take as many times as long
    if (c.variant.kind == Variant::fewer && kFewer * takes_ > 0.02 * budget_) c.idle = true;
    c.idle = c.idle || !c.launched;
    if (c.idle) return {};
    const double seconds = run_once();
    c.slow = takes_ > 0 && seconds > kSlow * takes_ && seconds > kSlowShare * budget_;
    return changed(before, looked());
}

// What the baseline writes when its outputs hold something else: results that were there already, from an
// earlier launch, are seen only so.
Chunks Oracle::filled_by_baseline(const Case& c) {
    prepare(c);
    for (const Stretch& s : outputs_) memory_.fill(s);
    const Sums before = looked();
    run_once();
    return changed(before, looked());
}

// The same of floats that stay nearly what they are, on any inputs.
void Oracle::turn_outputs(unsigned bits) {
    for (const Stretch& s : outputs_)
        if (is_floating(s.element)) memory_.turn(s, bits);
}

void Oracle::find_written() {
    Chunks chunks = written_by(cases_[0]);
    // the first run also loads code; the second tells how long one takes, and how long others are waited for
    prepare(cases_[0]);
    const double seconds = takes_ = run_once();
    limit_ = std::min(limit_, job_.option("hang_factor") * seconds + job_.option("hang_seconds"));
    // inputs on which it takes far longer say nothing, and each hang is waited for
    drawn_limit_ = std::min(limit_, kPatience * seconds + job_.option("hang_seconds") / 4);
    if (!outputs_.empty()) {
        stage("fill");
        chunks = merged(chunks, filled_by_baseline(cases_[0]));
    }
    timed_ = chunks;
    const Chunks own = chunks;
    for (std::size_t i = 1; i < cases_.size();) {
        if (i >= kFewestCases && !affords(0.3)) {
            cut(i);
            break;
        }
        Case& c = cases_[i];
        stage("variant " + c.variant.name);
        const Chunks more = written_by(c);
        const bool stands = !c.idle && !c.slow && owns(more, own);
        if (stands) chunks = merged(chunks, more), ++i;
        else drop(i);
    }
    // what lies there from an earlier launch shows on other inputs alone, and there not all of it
    if (job_.launch && (chunks.empty() || (own.empty() && outputs_.empty()))) {
        stage("later launch");
        throw std::runtime_error("the launch changes no memory that an earlier one has not");
    }
    writable_ = chunks;
    dirty_ = merged(dirty_, writable_);
    if (job_.roomy > 0) chunks = looked_at(chunks);
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

// On larger copies of memory conditions are what is looked for, not places: of many results some have to do, the first
// and the last of a buffer and others drawn at random.
Chunks Oracle::looked_at(const Chunks& chunks) {
    if (chunks.size() <= kMostLookedAt) return chunks;
    std::mt19937_64 random(job_.seed);
    Chunks kept;
    for (std::size_t i = 0; i < chunks.size(); i += kTogether) {
        const std::size_t stop = std::min(i + kTogether, chunks.size());
        const bool ends = i == 0 || stop == chunks.size() || &memory_.block_of(chunks[i]) != &memory_.block_of(chunks[i - 1]);
        auto& to = ends || random() % chunks.size() < kMostLookedAt ? kept : unread_;
        to.insert(to.end(), chunks.begin() + static_cast<long>(i), chunks.begin() + static_cast<long>(stop));
    }
    return kept;
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
            // what lies before structures, as in front of a larger copy, is none of theirs
            else at = add_stretch(index, at, stride ? std::min(stop, said->offset) : stop, said);
        }
        looked_at_ = at;
        i = j;
    }
}

// Elements of one type, or as bytes; up to there.
std::size_t Oracle::add_stretch(std::size_t block, std::size_t at, std::size_t stop, const Typed* said) {
    std::size_t end = 0;
    const Element element = inputs_.type_at(block, at, end);
    end = std::min(end, stop);
    // what is said may begin behind it
    const bool is_whole = said && said->whole && at % said->whole == said->offset % said->whole;
    add({block, at, end - at, element, 0, 0, is_whole ? said->whole : 0});
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

std::size_t Oracle::floats() const {
    std::size_t count = 0;
    for (const Stretch& s : stretches_)
        if (is_floating(s.element)) count += s.held() / element_size(s.element);
    return count;
}

void Oracle::set_length(double seconds) {
    CUdevice device;
    int processors = 0, khz = 0;
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    check(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
    check(cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device), "cuDeviceGetAttribute");
    // 128 additions per clock and SM is the most that ordinary units of any architecture since Volta do
    const double additions = 128.0 * processors * khz * 1e3 * seconds;
    const auto results = static_cast<double>(std::max<std::size_t>(1, floats()));
    std::size_t floats = 0;
    for (const Area& area : inputs_.floats())
        floats += area.stretch.bytes / std::max(area.stretch.stride, element_size(area.stretch.element));
    const auto inputs = static_cast<double>(std::max<std::size_t>(1, floats));
    // a thread's chain of additions may also revisit inputs, but not outrun the card
    tolerance_.length = std::max(1.0, std::min(additions / results, std::max(inputs, 4096.0)));
    tolerance_.terms = std::max(tolerance_.length, std::min(additions, inputs));
}

// Runs the baseline on a case, keeps its results, and notes what it changes.
void Oracle::capture(Case& c) {
    if (card_) return capture_on_card(c);
    prepare(c);
    before_.resize(stretches_.size());
    // what is known to be written throughout need not be compared with what lay there
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        if (is_whole(i)) continue;
        before_[i].resize(stretches_[i].held());
        memory_.read(stretches_[i], before_[i].data());
    }
    run_once();
    c.after = looked();
    c.expected.clear();
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        Expected e = unread(i);
        e.bytes.resize(stretches_[i].held());
        memory_.read(stretches_[i], e.bytes.data());
        if (!is_whole(i)) mark_written(*e.written, e.element, before_[i].data(), e.bytes.data());
        c.expected.push_back(std::move(e));
    }
}

// What is expected of a stretch, but for its contents.
Expected Oracle::unread(std::size_t stretch) const {
    Expected e;
    e.element = stretches_[stretch].element;
    e.widened = job_.widened && e.element == Element::f64;
    e.whole = stretches_[stretch].whole;
    e.written = written_[stretch];
    return e;
}

bool Oracle::is_whole(std::size_t stretch) const {
    if (card_) return whole_[stretch];
    const auto& written = *written_[stretch];
    return !std::memchr(written.data(), 0, written.size());
}

std::vector<std::size_t> Oracle::sparse(bool filled) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        auto here = [&](const Stretch& s) { return s.block == stretches_[i].block; };
        const bool asked = filled || std::none_of(outputs_.begin(), outputs_.end(), here);
        if (asked && is_floating(stretches_[i].element) && !is_whole(i)) found.push_back(i);
    }
    return found;
}

// What the baseline writes where its outputs hold something else; where nothing says whether they are outputs, nearly the
// same.
void Oracle::mark_filled(const Case& c) {
    if (!outputs_.empty()) mark_run(c, [&] {
        for (const Stretch& s : outputs_) memory_.fill(s);
    });
    mark_turned(c, false);
}

// What it writes where floats are others in their last bits, which leads nobody anywhere. No value is both of two others.
void Oracle::mark_turned(const Case& c, bool filled) {
    for (const unsigned bits : {1u, 2u}) {
        const std::vector<std::size_t> left = sparse(filled);
        if (left.empty()) return;
        mark_run(c, [&] {
            for (std::size_t i : left) memory_.turn(stretches_[i], bits);
        });
    }
}

void Oracle::mark_run(const Case& c, const std::function<void()>& change) {
    prepare(c);
    change();
    if (card_) {
        on_card_ = nullptr;
        card_->keep(OnCard::first);
        run_once();
        mark_on_card();
        return forget_results();
    }
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        if (is_whole(i)) continue;
        open.push_back(i);
        before_[i].resize(stretches_[i].held());
        memory_.read(stretches_[i], before_[i].data());
    }
    run_once();
    for (std::size_t i : open) mark_written(*written_[i], stretches_[i].element, before_[i].data(), read_now(i));
}

// Where the baseline writes on a case although no launch that was learned from has shown it.
Chunks Oracle::turned_by_baseline(const Case& c) {
    prepare(c);
    turn_outputs(1);
    const Sums before = looked();
    run_once();
    const Chunks all = changed(before, looked());
    Chunks more;
    std::set_difference(all.begin(), all.end(), writable_.begin(), writable_.end(), std::back_inserter(more));
    return more;
}

bool Oracle::learns_written(const Case& of, const Outcome& first) {
    Case& c = cases_[static_cast<std::size_t>(&of - cases_.data())];
    if (first.state != std::string("wrong") || !first.difference.stray || c.asked) return false;
    memory_.unbind();
    // whatever was written beyond what a launch's own start puts back
    if (!recover()) return false;
    c.asked = true;
    auto known = [&] {
        read_masks();
        std::size_t count = writes_too_.size();
        for (const auto& w : written_) count += static_cast<std::size_t>(std::count(w->begin(), w->end(), 1));
        return count;
    };
    const std::size_t before = known();
    ask_again([&] {
        mark_turned(c, true);
        writes_too_ = merged(writes_too_, turned_by_baseline(c));
    });
    return known() > before;
}

const std::uint8_t* Oracle::read_now(std::size_t stretch) {
    scratch_.resize(std::max(scratch_.size(), stretches_[stretch].held()));
    memory_.read(stretches_[stretch], scratch_.data());
    return scratch_.data();
}

}  // namespace warplens
