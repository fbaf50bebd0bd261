// NumPy's NPY format (numpy.lib.format): "\x93NUMPY", version, header length,
// a Python dictionary as text with 'descr', 'fortran_order' and 'shape', then
// the elements. Versions 1.0, 2.0 and 3.0.
#pragma once

#include "absl/status/statusor.h"
#include "engine/data/array_reader.h"
#include "engine/data/byte_stream.h"

namespace gpupool::engine {

// Leaves the stream at the first element. InvalidArgument names the key and
// the text found: unknown element types (objects, strings, complex numbers)
// and Fortran order are refused.
absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream);

}  // namespace gpupool::engine
