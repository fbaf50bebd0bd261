// Checks the numbers of data.transforms that do not depend on the data. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::v1 {
class DataSpec;
class Transform;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the name of the kind that is set, as job files have it; empty when
// none is set.
absl::string_view TransformName(const v1::Transform& transform);

// Returns "data.transforms[INDEX].NAME", the place of errors.
std::string TransformPlace(int index, const v1::Transform& transform);

// Returns whether the transform is for this input of the model. One without an
// input's name is for every input.
bool IsForInput(const v1::Transform& transform, absl::string_view input);

// Returns whether the transform gives pixels another place.
bool MovesPixels(const v1::Transform& transform);

// Checks how many transforms there are, and the kind and the numbers of each.
// INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckTransforms(const v1::DataSpec& data);

}  // namespace gpupool::engine
