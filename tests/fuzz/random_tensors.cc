#include "tests/fuzz/random_tensors.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "engine/import/onnx/file/tensor_data.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::TensorProto;

struct WeightedType {
  int type;
  int weight;
};

constexpr WeightedType kTypes[] = {
    {TensorProto::FLOAT, 40},   {TensorProto::FLOAT16, 14},
    {TensorProto::BFLOAT16, 8}, {TensorProto::DOUBLE, 8},
    {TensorProto::INT64, 8},    {TensorProto::INT32, 6},
    {TensorProto::BOOL, 5},     {TensorProto::INT8, 4},
    {TensorProto::UINT8, 4},    {TensorProto::UINT16, 1},
    {TensorProto::INT16, 1},    {TensorProto::UINT32, 1}};

int64_t RandomSize(Dice& dice) {
  if (dice.Chance(3)) return 0;
  if (dice.Chance(25)) return 1;
  if (dice.Chance(10)) return dice.Between(7, 40);
  return dice.Between(2, 6);
}

// Gives large shapes sizes of 1, from the back.
Dims Limited(Dims dims) {
  for (size_t i = dims.size(); i-- > 0 && ElementsOf(dims) > kMostElements;) {
    dims[i] = 1;
  }
  return dims;
}

double OddFloat(Dice& dice) {
  const double infinity = std::numeric_limits<double>::infinity();
  return dice.OneOf<double>({0.0, -0.0, 1.0, -1.0, infinity, -infinity,
                             std::nan(""), 1e-7, 3e4, 1e12, -1e12});
}

double OddInteger(Dice& dice, DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return dice.OneOf<double>({-128, 127, 0, -1});
    case DType::kUint8:
      return dice.OneOf<double>({0, 255, 128});
    default:
      return dice.OneOf<double>({0, -1, 1000, -1000, 2147483647, -2147483648});
  }
}

}  // namespace

int RandomType(Dice& dice) {
  int64_t left = dice.Below(100);
  for (const WeightedType& row : kTypes) {
    left -= row.weight;
    if (left < 0) return row.type;
  }
  return TensorProto::FLOAT;
}

int RandomFloatingType(Dice& dice) {
  return dice.OneOf<int>({TensorProto::FLOAT, TensorProto::FLOAT,
                          TensorProto::FLOAT, TensorProto::FLOAT16,
                          TensorProto::BFLOAT16, TensorProto::DOUBLE});
}

Dims RandomDims(Dice& dice) {
  return RandomDimsOfRank(dice, static_cast<int>(dice.Below(6)));
}

Dims RandomDimsOfRank(Dice& dice, int rank) {
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(RandomSize(dice));
  return Limited(std::move(dims));
}

Dims RandomBroadcastable(Dice& dice, Dims dims) {
  if (!dims.empty() && dice.Chance(40)) {
    dims.erase(
        dims.begin(),
        dims.begin() + dice.Between(1, static_cast<int64_t>(dims.size())));
  }
  for (int64_t& size : dims) {
    if (dice.Chance(25)) size = 1;
  }
  return dims;
}

int64_t ElementsOf(const Dims& dims) {
  int64_t elements = 1;
  for (const int64_t size : dims) elements *= size;
  return elements;
}

std::vector<double> RandomNumbers(Dice& dice, DType dtype, int64_t count) {
  const bool odd = dice.Chance(6), whole = dice.Chance(15);
  const double scale = dice.OneOf<double>({0.5, 1, 1, 2, 2, 10});
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& x : numbers) {
    if (dtype == DType::kBool) {
      x = static_cast<double>(dice.Below(2));
    } else if (!IsFloating(dtype)) {
      const bool is_unsigned = dtype == DType::kUint8;
      x = static_cast<double>(dice.Between(is_unsigned ? 0 : -4, 6));
      if (odd && dice.Chance(10)) x = OddInteger(dice, dtype);
    } else {
      x = whole ? static_cast<double>(dice.Between(-4, 4))
                : dice.Uniform(-scale, scale);
      if (odd && dice.Chance(10)) x = OddFloat(dice);
    }
    x = RoundToDType(dtype, x);
  }
  return numbers;
}

TensorProto MakeTensor(const std::string& name, int type, const Dims& dims,
                       const std::vector<double>& numbers) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t size : dims) tensor.add_dims(size);
  for (const double x : numbers) {
    switch (type) {
      case TensorProto::FLOAT:
        tensor.add_float_data(static_cast<float>(x));
        break;
      case TensorProto::DOUBLE:
        tensor.add_double_data(x);
        break;
      case TensorProto::INT64:
        tensor.add_int64_data(static_cast<int64_t>(x));
        break;
      case TensorProto::UINT32:
      case TensorProto::UINT64:
        tensor.add_uint64_data(static_cast<uint64_t>(x < 0 ? 0 : x));
        break;
      case TensorProto::FLOAT16:
      case TensorProto::BFLOAT16: {
        uint16_t bits = 0;
        WriteFromDoubles(
            type == TensorProto::FLOAT16 ? DType::kFloat16 : DType::kBFloat16,
            {&x, 1}, 1, reinterpret_cast<std::byte*>(&bits));
        tensor.add_int32_data(bits);
        break;
      }
      case TensorProto::UINT16:
        tensor.add_int32_data(static_cast<int32_t>(x < 0 ? 0 : x) & 0xffff);
        break;
      case TensorProto::INT16:
        tensor.add_int32_data(static_cast<int16_t>(x));
        break;
      default:
        tensor.add_int32_data(static_cast<int32_t>(x));
    }
  }
  return tensor;
}

TensorProto RandomTensor(Dice& dice, const std::string& name, int type,
                         const Dims& dims) {
  const absl::StatusOr<DType> dtype = onnx_import::DTypeFromOnnx(type);
  return MakeTensor(
      name, type, dims,
      RandomNumbers(dice, dtype.value_or(DType::kFloat32), ElementsOf(dims)));
}

TensorProto IntegerTensor(const std::string& name,
                          const std::vector<int64_t>& numbers) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(numbers.size()));
  for (const int64_t x : numbers) tensor.add_int64_data(x);
  return tensor;
}

}  // namespace gpupool::engine::fuzz
