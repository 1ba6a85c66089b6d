// SPDX-License-Identifier: Apache-2.0
// How far rounding alone may move a floating-point result, learned from the baseline itself.
//
// A result R that was computed in another order, contracted otherwise, or with other roots lies within
//
//   F u sqrt(L) max(|R|, A) + 4 max(B, spread) + 8 u C
//
// u is the unit roundoff of the arithmetic (2^-24 for float, for 16-bit results, and for doubles that come of floats that
// the kernel has computed; 2^-53 for other doubles) and L the longest reduction that the launch's time allows per
// result, so that u sqrt(L) is the drift of a random walk of roundings (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8). What R was summed from, and what
// its intermediate terms lose, is asked of the baseline: every input is moved by a relative d r, r uniform in
// [-1, 1], once up and once down, which gives R+ and R-.
//
//   A = rms (R+ - R-) / (2 d rms(r))   what R was summed from: a sum that cancels has A far above |R|
//   B = max |R+ + R- - 2 R| / 2        the rounding of R itself, rolled anew (what R depends on smoothly falls out
//                                      up to d^2): an intermediate term far above its inputs shows here alone
//   spread = max |R' - R|              over repeats on equal inputs: atomics
//   C = what nine in ten results stay below, by the index's place in a structure of up to twelve fields: a result
//       far below its like may be a difference of terms as large as they are, which inputs do not tell
//
// Where repeats differ, as with float atomics, the baseline shows how inaccurate it is: the spread alone is the noise
// (B, which holds it again, counts only beyond three times it), L is at most 4096, and of the precision of all below
// the spread counts three times, not sixteen: a candidate may be as inaccurate as the baseline, and no more.
//
// A few moves see little of one result: results of about the same size lend each other the median of A and B. A
// result that jumps (a threshold crossed, an intermediate term that rounds to 1) does so seldom: as often as moves
// made results of that size jump, and as far, a candidate's may too.
//
// Where many terms are equal, as where inputs are zero in runs, the roundings of one order all go one way: as many as a
// sum of all inputs has, up to 4096, stand in place of F sqrt(L) where that is more, and the precision of all is not
// judged. L does not do there: a sum that a whole row of results shares is longer than the time of one result allows.
//
// Beside the bound of each result stands the precision of all: at most one in ten may be further off than
// 16 (u max(|R|, A) + max(B, spread)) + 8 u C, or the candidate rounds more coarsely than the baseline does.
//
// A 16-bit result is one rounding of its format off, 2^-11 |R| for half: at most one in ten may differ by more than that
// and 16 u max(|R|, A), where the baseline's B shows its arithmetic to be finer than its results.
//
// Inputs of 16 bits move in steps that they hold, so that moving rounds nothing.
//
// Where a lower precision is allowed, a result may be off by 4 l max(|R|, A) beyond its bound, l the relative error of
// a term: four standard deviations of the terms' roundings, or their common cut. On inputs of few bits it may not.
#pragma once

#include "compare.h"

namespace warplens {

double unit_roundoff(Element element);       // of arithmetic on it, see above
double input_move(Element element);          // the move d of such inputs

// What all results of a stretch have in common; its `walk` is a part of every result's bound, relative to the result.
Manner manner_of(const Expected& expected, const Tolerance& tolerance);
Bound bound_of(const Expected& expected, const Manner& manner, std::size_t element, double value);

std::uint64_t jumps_allowed(const Expected& expected, std::size_t pool);

// Adds one more run of the baseline on equal inputs.
void add_repeat(Expected& expected, const std::uint8_t* run);
// Decides, once A is known, whether a spread is rounding or another order of the elements.
void judge_spread(Expected& expected, const Tolerance& tolerance);
// How much larger the results of one set of inputs are than those of another, by their norms.
double growth(const Expected& from, const Expected& to);
// Adds a pair of runs on inputs moved by `move` up and down; `pairs` of them make the estimate of A.
void add_moved(Expected& expected, const std::uint8_t* up, const std::uint8_t* down, double move, int pairs);
// Of results that so many pairs made the estimate of, that more shall make it: they are to be added, and settled.
void expect_pairs(Expected& expected, int pairs, int more);
// How many pairs it takes: few results have few like them to learn from, many take long to read.
int pairs_for(std::size_t results);
// Shares what all pairs found among results of about the same size; with `pool_up` without what jumps.
void settle(Expected& expected, const Tolerance& tolerance);
void pool_up(Expected& expected);
// Every so many of so many results are looked at for that; and by what a difference of moved runs is divided, 2 d rms(r).
std::size_t sampling_step(std::size_t count);
double unit_of_moves(double move);

// The share of ||R||^2 that lies in results no larger than their bound: near 1, rounding may change them wholly.
struct Sight {
    double all = 0, hidden = 0;
    bool blind() const { return all > 0 && hidden > 0.5 * all; }
};
Sight sight_of(const Expected& expected, const Tolerance& tolerance);

}  // namespace warplens
