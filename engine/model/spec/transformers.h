// The layers of transformers: of images (Dosovitskiy and others, "An Image is
// Worth 16x16 Words", 2021) and of tokens (Radford and others, "Language Models
// are Unsupervised Multitask Learners", 2019). Pure functions.
//
// In both a block has two branches: attention, and two products. Each branch
// begins with a norm, and its result is added to its input. Layers that have
// weights are named as in timm and nanoGPT, without the prefix "transformer.".
#pragma once

#include "absl/status/status.h"

namespace gpupool::v1 {
class Gpt;
class ModelSpec;
class VisionTransformer;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Add the layers to `spec`, and the input_shape of the defaults if it has none.
// INVALID_ARGUMENT names the option that is out of range, or that does not fit
// another one or the input.
absl::Status AddVisionTransformer(const v1::VisionTransformer& options,
                                  v1::ModelSpec& spec);
absl::Status AddGpt(const v1::Gpt& options, v1::ModelSpec& spec);

}  // namespace gpupool::engine
