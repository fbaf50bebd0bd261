// Kernels before, between and after the products of attention, when a library
// computes the products. Host only.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

// Libraries subtract the largest score from all scores, and -infinity -
// -infinity is NaN. So masks are raised to at least -kHiddenScore or the least
// finite number of their type. Scores of keys that are seen must be far larger.
inline constexpr float kHiddenScore = 1e30F;

// Makes a kernel that removes -infinity from a mask in float16 or bfloat16.
// Input: the mask. Output: the same number of elements in the same order.
std::unique_ptr<Kernel> MakeFiniteMask(const Value& mask, LaunchStream stream);

// Makes a kernel that replaces -infinity by kHiddenScore in `rows` logarithms
// in float32. Input: lse. Output: `rows` numbers.
std::unique_ptr<Kernel> MakeFiniteLogarithms(int64_t rows, LaunchStream stream);

// Makes a kernel for queries of kAttention, in float16 or bfloat16 with a mask,
// that see no key. It sets their y to 0 and their lse to -infinity, as the op
// promises, and writes no other row. Input: the node's mask. Outputs: y and, if
// the node has it, lse.
std::unique_ptr<Kernel> MakeBlindRows(const CompileRequest& request,
                                      LaunchStream stream);

// A range of the batch * heads matrices of an attention node in float32.
struct AttentionChunk {
  int64_t first = 0;
  int64_t count = 0;
};

// Makes a kernel for kAttention. Input: the whole mask, if the node has one.
// Outputs of the chunk: scale * q k^T, which the kernel turns into its softmax,
// and lse, if the node has it.
std::unique_ptr<Kernel> MakeAttentionShares(const CompileRequest& request,
                                            const AttentionChunk& chunk,
                                            LaunchStream stream);

// Makes a kernel for kAttentionGrad. Inputs: dy, y and lse of the chunk, and
// the whole mask, if the node has one. Outputs of the chunk: scale * q k^T,
// which the kernel turns into the softmax p, and dy v^T, which it turns into p
// * (dy v^T - sum(dy * y)).
std::unique_ptr<Kernel> MakeAttentionSlopes(const CompileRequest& request,
                                            const AttentionChunk& chunk,
                                            LaunchStream stream);

}  // namespace gpupool::engine::portable
