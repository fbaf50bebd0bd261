// Names of the inference protocol for the element types of models. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Returns "FP32", "INT64", ..., "BYTES" for STRING; "" for
// DATA_TYPE_UNSPECIFIED.
absl::string_view DataTypeName(v1::DataType type);

// Returns DATA_TYPE_UNSPECIFIED for a name that no model can have.
v1::DataType ParseDataType(absl::string_view name);

// Returns the bytes of one element in requests and answers; 0 for STRING, whose
// elements have several sizes, and for DATA_TYPE_UNSPECIFIED.
uint64_t ElementBytes(v1::DataType type);

// Returns the name of the type in a model configuration, "TYPE_FP32" and
// "TYPE_STRING".
std::string ConfigTypeName(v1::DataType type);

// Returns the type of the same numbers in slots: INT32 for UINT16 and INT16,
// INT64 for UINT32 and UINT64, otherwise `type` itself.
v1::DataType HeldType(v1::DataType type);

}  // namespace gpupool::server
