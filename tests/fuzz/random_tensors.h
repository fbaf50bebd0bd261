// Types, sizes and numbers of random tensors. Pure functions of the dice.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor/dtype.h"
#include "tests/fuzz/dice.h"

namespace gpupool::engine::fuzz {

using Dims = std::vector<int64_t>;

// The number of elements that a tensor of a random graph may have.
inline constexpr int64_t kMostElements = 4096;

// Returns a type of TensorProto.DataType: float32 often, the others of the
// engine sometimes, those that are widened at import rarely.
int RandomType(Dice& dice);
// Returns a floating type.
int RandomFloatingType(Dice& dice);
// Returns a shape of rank 0 to 5 with sizes of mostly 1 to 6, rarely 0, and at
// most kMostElements elements.
Dims RandomDims(Dice& dice);
// Returns a shape of this rank.
Dims RandomDimsOfRank(Dice& dice, int rank);
// Returns a shape that broadcasts to `dims`: leading sizes are dropped and some
// become 1.
Dims RandomBroadcastable(Dice& dice, Dims dims);

int64_t ElementsOf(const Dims& dims);

// Returns numbers for a tensor of the type. Most tensors hold small numbers;
// some hold zeros, infinities, NaN, or the ends of the type's range.
std::vector<double> RandomNumbers(Dice& dice, DType dtype, int64_t count);

// Returns a tensor with these numbers, stored in the fields of the type, so
// that the model's text is readable.
onnx::TensorProto MakeTensor(const std::string& name, int type,
                             const Dims& dims,
                             const std::vector<double>& numbers);
// Returns a tensor with numbers of RandomNumbers.
onnx::TensorProto RandomTensor(Dice& dice, const std::string& name, int type,
                               const Dims& dims);
// Returns a one-dimensional tensor of type INT64.
onnx::TensorProto IntegerTensor(const std::string& name,
                                const std::vector<int64_t>& numbers);

}  // namespace gpupool::engine::fuzz
