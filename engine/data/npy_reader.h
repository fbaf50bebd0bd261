// Reader of NumPy's NPY format (numpy.lib.format): "\x93NUMPY", version, header
// length, a Python dictionary as text with 'descr', 'fortran_order' and
// 'shape', then the elements. Versions 1.0, 2.0 and 3.0.
#pragma once

#include "absl/status/statusor.h"
#include "engine/data/array_reader.h"
#include "engine/data/bytes/byte_stream.h"

namespace gpupool::engine {

// Reads the header and leaves the stream at the first element. INVALID_ARGUMENT
// names the key and quotes its text. Refuses element types that are not numbers
// or booleans (objects, strings, complex numbers) and Fortran order.
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace gpupool::engine
