// Private to server/http: sizes of the protocol's data types, of those too that
// no model of this server has.
//
// Pure functions.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns the bytes of one element; 0 for BYTES, whose elements differ, and for
// a name that is no data type.
uint64_t DatatypeBytes(absl::string_view datatype);

}  // namespace gpupool::server
