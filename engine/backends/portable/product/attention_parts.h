// Kernels around and between the products of attention, where a library
// computes these. Host only.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

// Libraries subtract the largest score from scores. -infinity among them would
// leave no number, so masks lie at or above -kHiddenScore, or above the least
// finite number of their type. Scores of keys that are seen must lie far above.
inline constexpr float kHiddenScore = 1e30F;

// A mask in float16 or bfloat16 without -infinity.
// Input: the mask. Output: as many numbers in the same order.
std::unique_ptr<Kernel> MakeFiniteMask(const Value& mask, LaunchStream stream);

// The logarithms of `rows` sums in float32, with kHiddenScore in the place of
// -infinity. Input: lse. Output: as many numbers.
std::unique_ptr<Kernel> MakeFiniteLogarithms(int64_t rows, LaunchStream stream);

// What kAttention in float16 or bfloat16 with a mask promises for queries that
// see no key: y is 0 and lse -infinity. Input: the mask as the node has it.
// Outputs: y and, as the node has it, lse; only these rows are written.
std::unique_ptr<Kernel> MakeBlindRows(const CompileRequest& request,
                                      LaunchStream stream);

// Some of the batch * heads matrices of an attention node in float32.
struct AttentionChunk {
  int64_t first = 0;
  int64_t count = 0;
};

// Of kAttention. Input: the whole mask, as the node has one. Outputs, both of
// the chunk: scale * q k^T, which becomes its softmax, and lse, as the node has
// one.
std::unique_ptr<Kernel> MakeAttentionShares(const CompileRequest& request,
                                            const AttentionChunk& chunk,
                                            LaunchStream stream);

// Of kAttentionGrad. Inputs: dy, y and lse of the chunk, and the whole mask, as
// the node has one. Outputs, of the chunk: scale * q k^T, which becomes the
// softmax p, and dy v^T, which becomes p * (dy v^T - sum(dy * y)).
std::unique_ptr<Kernel> MakeAttentionSlopes(const CompileRequest& request,
                                            const AttentionChunk& chunk,
                                            LaunchStream stream);

}  // namespace gpupool::engine::portable
