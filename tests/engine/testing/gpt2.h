// GPT-2 (Radford et al. 2019) of any size, without dropout. It has embeddings
// of tokens and of positions, and blocks of causal attention and of two
// products with the tanh GELU between them. A layer norm precedes the
// attention, the products and the scores. The scores are products with the
// token embeddings.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/model/model_source.h"

namespace gpupool::engine::testing {

// The defaults are those of the smallest published model: 124,439,808
// parameters.
struct Gpt2Sizes {
  int64_t tokens = 1024;  // per sequence
  int64_t vocabulary = 50257;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t blocks = 12;
};

// For tests. Learns in a minute on a processor.
inline constexpr Gpt2Sizes kTinyGpt2{
    .tokens = 16, .vocabulary = 24, .width = 32, .heads = 4, .blocks = 1};

// Returns a model with input "tokens" int64 [batch, tokens] and output "scores"
// float32 [batch, tokens, vocabulary].
std::shared_ptr<const ModelSource> Gpt2(const Gpt2Sizes& sizes);

}  // namespace gpupool::engine::testing
