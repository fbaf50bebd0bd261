// GPT-2 (Radford et al. 2019) of any size: tables of tokens and of positions,
// blocks of causal attention and of two products with the tanh GELU between
// them, both behind layer norms, and a last norm before the scores, which are
// products with the table of tokens. Without dropout.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/import/model_source.h"

namespace gpupool::engine::testing {

// By default those of the smallest published model: 124,439,808 parameters.
struct Gpt2Sizes {
  int64_t tokens = 1024;  // of a sequence
  int64_t vocabulary = 50257;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t blocks = 12;
};

// For tests: learns in a minute on a processor.
inline constexpr Gpt2Sizes kTinyGpt2{
    .tokens = 16, .vocabulary = 24, .width = 32, .heads = 4, .blocks = 1};

// Input "tokens" int64 [batch, tokens], output "scores" float32 [batch,
// tokens, vocabulary].
std::shared_ptr<const ModelSource> Gpt2(const Gpt2Sizes& sizes);

}  // namespace gpupool::engine::testing
