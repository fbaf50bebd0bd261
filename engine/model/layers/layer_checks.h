// Checks that layers of several kinds make. Pure functions. Errors are
// INVALID_ARGUMENT, without the layer's name.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// Returns the shape of one example, as "[1, 8, 8]" for a value [batch, 1, 8,
// 8].
std::string ExampleShapeText(const Shape& shape);

// Checks that the field `what` is at least 1.
absl::Status CheckCount(absl::string_view what, int64_t count);

// Checks that values of this shape are images, [batch, channels, height,
// width].
absl::Status CheckImage(const Shape& shape);

// Checks that values of this shape are sequences, [batch, tokens, width].
absl::Status CheckTokens(const Shape& shape);

}  // namespace gpupool::engine
