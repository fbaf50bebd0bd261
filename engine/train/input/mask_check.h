// Checks the tokens that random_mask puts into rows against the tables of the
// model that the tokens select from. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/model/layer_spec.h"

namespace gpupool::v1 {
class DataSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Checks that each table which a masked input of the model selects from has the
// mask_token and all of the vocabulary, as far as they are used. Tokens that
// are computed with before they select are not followed. INVALID_ARGUMENT names
// the transform, the table, the numbers and the remedy.
absl::Status CheckMaskTokens(const v1::DataSpec& data, const ModelGraph& model);

}  // namespace gpupool::engine
