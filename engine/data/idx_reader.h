// The IDX format of the MNIST files (yann.lecun.com/exdb/mnist):
//   byte 0, 1   zero
//   byte 2      element type: 08 uint8, 09 int8, 0B int16, 0C int32,
//               0D float32, 0E float64
//   byte 3      number of dimensions
//   then        one 32-bit big-endian size for each dimension
//   then        the elements, big-endian, row-major
#pragma once

#include "absl/status/statusor.h"
#include "engine/data/array_reader.h"
#include "engine/data/bytes/byte_stream.h"

namespace gpupool::engine {

// Reads the header and leaves the stream at the first element. INVALID_ARGUMENT
// names the byte that is wrong.
absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream);

}  // namespace gpupool::engine
