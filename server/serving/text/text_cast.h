// Casts between texts and numbers, as Cast of ONNX has them.
//
// Pure functions. Texts of errors follow the name of the node.
#pragma once

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

// Returns the tensor in another type:
//   * texts to numbers: decimal and scientific notation, "INF", "-INF" and
//     "NaN" in any case; to integers whole numbers only
//   * numbers to texts: integers in full, BOOL as "1" and "0", FLOAT32 and
//     FLOAT64 with up to 8 and 17 digits, "INF", "-INF" and "NaN"
//   * floats to integers: towards zero; what is not a number becomes 0, and
//     what the type does not have becomes equal to it modulo 2^bits
// INVALID_ARGUMENT names a text that is no such number.
absl::StatusOr<TextTensor> CastText(const TextTensor& tensor, v1::DataType to,
                                    TextMemory& memory);

// Returns the nearest number that the type has. Integers are taken modulo
// 2^bits.
int64_t FitInteger(int64_t number, v1::DataType type);
double FitFloat(double number, v1::DataType type);

}  // namespace gpupool::server
