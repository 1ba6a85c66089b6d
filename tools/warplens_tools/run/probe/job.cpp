// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace warplens {
namespace {

Element element_of(const std::string& name) {
    static const std::map<std::string, Element> known = {
        {"other", Element::other}, {"f64", Element::f64},   {"f32", Element::f32},
        {"f16", Element::f16},     {"bf16", Element::bf16}, {"integer", Element::integer}};
    return known.at(name);
}

std::string rest_of(std::istringstream& line) {
    std::string text;
    std::getline(line >> std::ws, text);
    return text;
}

void read_extent(std::istringstream& line, unsigned (&extent)[3]) {
    if (!(line >> extent[0] >> extent[1] >> extent[2])) throw std::runtime_error("three numbers expected");
}

void read_fields(std::istringstream& line, Parameter& p) {
    std::size_t count = 0;
    if (!(line >> p.stride >> count)) throw std::runtime_error("a structure's size and fields expected");
    for (std::size_t i = 0; i < count; ++i) {
        Field field;
        std::string element;
        if (!(line >> field.offset >> element >> field.width >> field.pointer)) throw std::runtime_error("a field expected");
        field.element = element_of(element);
        p.fields.push_back(field);
    }
}

Parameter read_parameter(std::istringstream& line) {
    Parameter p;
    std::string element, constant, more;
    line >> p.index >> element >> constant;
    while (line >> more) {
        p.table = p.table || more == "table";
        p.scalar = p.scalar || more == "scalar";
        p.optional = p.optional || more == "optional";
        p.scratch = p.scratch || more == "scratch";
        if (more == "most") line >> p.most;
        if (more == "wide") line >> p.width;
        if (more == "whole") line >> p.whole;
        if (more == "structure") read_fields(line, p);
    }
    line.clear(line.rdstate() & ~std::ios::failbit);
    p.element = element_of(element);
    p.constant = constant == "const";
    return p;
}

Variant read_variant(std::istringstream& line) {
    static const std::map<std::string, Variant::Kind> kinds = {
        {"moved", Variant::moved}, {"redrawn", Variant::redrawn}, {"permuted", Variant::permuted}, {"signs", Variant::signs},
        {"zeros", Variant::zeros}, {"spikes", Variant::spikes},   {"scalars", Variant::scalars}, {"blanks", Variant::blanks},
        {"specials", Variant::specials}, {"flags", Variant::flags}, {"skewed", Variant::skewed}, {"ranged", Variant::ranged},
        {"full", Variant::full}, {"less", Variant::less}, {"halved", Variant::halved}, {"halves", Variant::halves},
        {"naught", Variant::naught}, {"vacant", Variant::vacant}, {"repeated", Variant::repeated}, {"nulls", Variant::nulls},
        {"raised", Variant::raised}, {"shifted", Variant::shifted}, {"more", Variant::more}, {"wide", Variant::wide},
        {"toggled", Variant::toggled}, {"asked", Variant::asked}, {"below", Variant::below}, {"infinities", Variant::infinities},
        {"ties", Variant::ties}, {"many", Variant::many}, {"reshaped", Variant::reshaped},
        {"numbers", Variant::numbers}, {"fewer", Variant::fewer},
        {"voids", Variant::voids}, {"mingled", Variant::mingled}, {"plus", Variant::plus}, {"met", Variant::met}, {"ranks", Variant::ranks}, {"striped", Variant::striped},
        {"turned", Variant::turned}, {"stepped", Variant::stepped}, {"vast", Variant::vast},  {"few", Variant::few}, {"longer", Variant::longer}, {"endless", Variant::endless}, {"reached", Variant::reached},
        {"standing", Variant::standing}, {"high", Variant::high}, {"aliased", Variant::aliased}, {"upper", Variant::upper}, {"nicked", Variant::nicked}, {"near", Variant::near}, {"halfway", Variant::halfway}, {"fields", Variant::fields}, {"centred", Variant::centred}, {"tagged", Variant::tagged}, {"brim", Variant::brim}, {"linked", Variant::linked}, {"lowered", Variant::lowered}, {"endmost", Variant::endmost}, {"past", Variant::past},
        {"settled", Variant::settled}, {"loose", Variant::loose}, {"masked", Variant::masked}, {"tables", Variant::tables}, {"against", Variant::against}, {"none", Variant::none}, {"minus", Variant::minus}};
    Variant v;
    std::string kind;
    line >> kind >> v.scale >> v.noise >> v.target;
    v.kind = kinds.at(kind);
    v.name = rest_of(line);
    return v;
}

Shape read_shape(std::istringstream& line) {
    Shape shape;
    read_extent(line, shape.grid);
    read_extent(line, shape.block);
    line >> shape.shared;
    return shape;
}

// One axis of a rule: "0 p2 255 + 256 /".
void read_rule(std::istringstream& line, GridRule& rule) {
    unsigned axis = 3;
    if (!(line >> axis) || axis > 2) throw std::runtime_error("an axis from 0 to 2 expected");
    rule.along(axis, rest_of(line));
}

Candidate& last(Job& job) { return job.candidates.at(job.candidates.size() - 1); }

using Reader = void (*)(Job&, std::istringstream&);

const std::map<std::string, Reader>& readers() {
    static const std::map<std::string, Reader> table = {
        {"mode", [](Job& j, auto& s) { j.mode = rest_of(s); }},
        {"result", [](Job& j, auto& s) { j.result = rest_of(s); }},
        {"helpers", [](Job& j, auto& s) { j.helpers = rest_of(s); }},
        {"kernel", [](Job& j, auto& s) { j.kernel = rest_of(s); }},
        {"instead", [](Job& j, auto& s) { s >> j.instead; j.instead_cubin = rest_of(s); }},
        {"converted", [](Job& j, auto& s) { std::size_t index = 0; std::string name; s >> index >> name; j.converted[index] = element_of(name); }},
        {"shape", [](Job& j, auto& s) { read_extent(s, j.grid); read_extent(s, j.block); s >> j.shared; }},
        {"launch", [](Job& j, auto& s) { s >> j.launch; }},
        {"sentinel", [](Job& j, auto& s) { j.sentinels.emplace_back(); s >> j.sentinels.back(); }},
        {"constant", [](Job& j, auto& s) { j.constants.emplace_back(); s >> j.constants.back(); }},
        {"seed", [](Job& j, auto& s) { s >> j.seed; }},
        {"parent", [](Job& j, auto& s) { s >> j.parent; }},
        {"gate", [](Job& j, auto& s) { j.gate = rest_of(s); }},
        {"parameter", [](Job& j, auto& s) { j.parameters.push_back(read_parameter(s)); }},
        {"rule", [](Job& j, auto& s) { read_rule(s, j.rule); }},
        {"unread", [](Job& j, auto& s) { std::size_t index = 0; s >> index; j.unread.insert(index); }},
        {"free", [](Job& j, auto& s) { std::size_t index = 0; s >> index; j.free.insert(index); }},
        {"gathered", [](Job& j, auto& s) { std::size_t index = 0; s >> index; j.gathered.insert(index); }},
        {"tells_nan", [](Job& j, auto&) { j.tells_nan = true; }},
        {"loose", [](Job& j, auto& s) { std::size_t index = 0; s >> index; j.loose.insert(index); }},
        {"tag", [](Job& j, auto& s) { std::size_t index = 0; s >> index; s >> j.tags[index]; }},
        {"below", [](Job& j, auto& s) { std::size_t index = 0; s >> index; j.below.insert(index); }},
        {"mask", [](Job& j, auto& s) { j.masks.emplace_back(); s >> j.masks.back().first >> j.masks.back().second; }},
        {"widened", [](Job& j, auto&) { j.widened = true; }},
        {"global", [](Job& j, auto& s) { j.globals.push_back(rest_of(s)); }},
        {"holds", [](Job& j, auto& s) { std::string name; s >> name; j.held[name] = read_parameter(s); }},
        {"option", [](Job& j, auto& s) { std::string name; s >> name; s >> j.options[name]; }},
        {"variant", [](Job& j, auto& s) { j.variants.push_back(read_variant(s)); }},
        {"room", [](Job& j, auto& s) { j.rooms.push_back(read_variant(s)); }},
        // with the variant, or the room, before it
        {"beside", [](Job& j, auto& s) { (j.rooms.empty() ? j.variants : j.rooms).at((j.rooms.empty() ? j.variants : j.rooms).size() - 1).beside.push_back(read_variant(s)); }},
        {"candidate", [](Job& j, auto& s) { j.candidates.emplace_back(); j.candidates.back().id = rest_of(s); }},
        {"cubin", [](Job& j, auto& s) { last(j).cubin = rest_of(s); }},
        {"entry", [](Job& j, auto& s) { last(j).entry = rest_of(s); }},
        {"grid", [](Job& j, auto& s) { read_extent(s, last(j).grid); }},
        {"block", [](Job& j, auto& s) { read_extent(s, last(j).block); }},
        {"shared", [](Job& j, auto& s) { s >> last(j).shared; }},
        {"blocks", [](Job& j, auto& s) { read_rule(s, last(j).rule); }},
        {"by_rule", [](Job& j, auto&) { last(j).by_rule = true; }},
        {"stands", [](Job& j, auto& s) { s >> last(j).launches; last(j).kernel = rest_of(s); }},
        {"pointer", [](Job& j, auto& s) { last(j).parameters.push_back(read_parameter(s)); }},
        // what was said of a candidate last is said of the kernel's twin
        {"twin", [](Job& j, auto& s) { j.twin = last(j); j.candidates.pop_back(); j.marks = rest_of(s); }},
        {"own_twin", [](Job& j, auto&) { j.own_twin = last(j); j.candidates.pop_back(); }},
        {"geometry",
         [](Job& j, auto& s) { const Shape from = read_shape(s); last(j).shapes.emplace_back(from, read_shape(s)); }},
        {"variable",
         [](Job& j, auto& s) {
             Global g;
             s >> g.name >> g.live;
             if (g.live == "-") g.live.clear();
             last(j).globals.push_back(g);
         }},
    };
    return table;
}

}  // namespace

double Job::option(const std::string& name) const {
    auto found = options.find(name);
    if (found == options.end()) throw std::runtime_error("the job has no option " + name);
    return found->second;
}

Job parse_job(const std::string& text) {
    Job job;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string key;
        if (!(words >> key)) continue;
        try {
            readers().at(key)(job, words);
        } catch (const std::exception&) {
            throw std::runtime_error("cannot read the job's line: " + line);
        }
        if (words.fail()) throw std::runtime_error("cannot read the job's line: " + line);
    }
    if (job.mode.empty() || job.result.empty()) throw std::runtime_error("the job names no mode or result file");
    return job;
}

Job read_job(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::stringstream text;
    text << file.rdbuf();
    return parse_job(text.str());
}

}  // namespace warplens
