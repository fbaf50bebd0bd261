// Names of the inference protocol for the element types of models. Pure
// functions.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Returns "FP32", "INT64", ...; "" for DATA_TYPE_UNSPECIFIED.
absl::string_view DataTypeName(v1::DataType type);

// Returns DATA_TYPE_UNSPECIFIED for a name that no model can have.
v1::DataType ParseDataType(absl::string_view name);

// Returns the bytes of one element; 0 for DATA_TYPE_UNSPECIFIED.
uint64_t ElementBytes(v1::DataType type);

}  // namespace gpupool::server
