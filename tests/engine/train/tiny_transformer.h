// A transformer that tells the next token of a sequence, small enough to train
// in a test: embeddings, one block of causal attention and of two products,
// both behind layer norm, and a norm before the scores.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/import/model_source.h"

namespace gpupool::engine::testing {

struct TransformerSizes {
  int64_t tokens = 16;  // of a sequence
  int64_t vocabulary = 24;
  int64_t width = 32;
  int64_t heads = 4;
};

// Input "tokens" int64 [batch, tokens], output "scores" float32 [batch,
// tokens, vocabulary]. Its weights begin uniformly at random.
std::shared_ptr<const ModelSource> TinyTransformer(
    const TransformerSizes& sizes);

}  // namespace gpupool::engine::testing
