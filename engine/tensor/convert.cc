#include "engine/tensor/convert.h"

#include <limits>
#include <type_traits>

#include "engine/tensor/half.h"

namespace gpupool::engine {
namespace {

// Element types in memory. Distinct types keep the 16-bit formats and bool
// apart from integers of the same size.
struct Half {
  uint16_t bits;
};
struct BrainHalf {
  uint16_t bits;
};
struct Truth {
  uint8_t byte;
};

template <typename T>
constexpr T Plain(T x) {
  return x;
}
float Plain(Half x) { return FloatFromFloat16(x.bits); }
float Plain(BrainHalf x) { return FloatFromBFloat16(x.bits); }
uint8_t Plain(Truth x) { return x.byte; }

// Converts one number by the rules of WriteFromDoubles.
template <typename To, typename From>
To Make(From x) {
  if constexpr (std::is_same_v<To, Half>) {
    return {Float16FromFloat(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, BrainHalf>) {
    return {BFloat16FromFloat(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, Truth>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (std::is_integral_v<To> &&
                       std::is_floating_point_v<From>) {
    // Converting a value outside of int64 would be undefined behaviour.
    constexpr From kLimit = static_cast<From>(0x1p63);
    if (!(x < kLimit)) {  // or NaN
      return x >= kLimit ? static_cast<To>(std::numeric_limits<int64_t>::max())
                         : To{0};
    }
    if (x < -kLimit) {
      return static_cast<To>(std::numeric_limits<int64_t>::min());
    }
    return static_cast<To>(static_cast<int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

// Calls visit(T{}) for the type of `dtype`.
template <typename Visitor>
void Visit(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kInt64:
      return visit(int64_t{});
    case DType::kUint8:
      return visit(uint8_t{});
    case DType::kBool:
      return visit(Truth{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kBFloat16:
      return visit(BrainHalf{});
  }
}

}  // namespace

void ReadAsDoubles(DType dtype, const std::byte* from, int64_t stride,
                   absl::Span<double> to) {
  Visit(dtype, [&](auto type) {
    const auto* elements = reinterpret_cast<const decltype(type)*>(from);
    for (double& x : to) {
      x = static_cast<double>(Plain(*elements));
      elements += stride;
    }
  });
}

void WriteFromDoubles(DType dtype, absl::Span<const double> from,
                      int64_t stride, std::byte* to) {
  Visit(dtype, [&](auto type) {
    auto* elements = reinterpret_cast<decltype(type)*>(to);
    for (const double x : from) {
      *elements = Make<decltype(type)>(x);
      elements += stride;
    }
  });
}

double RoundToDType(DType dtype, double x) {
  double result = 0;
  Visit(dtype, [&](auto type) {
    result = static_cast<double>(Plain(Make<decltype(type)>(x)));
  });
  return result;
}

void ConvertElements(DType from_dtype, const std::byte* from, DType to_dtype,
                     std::byte* to, int64_t count) {
  Visit(from_dtype, [&](auto from_type) {
    Visit(to_dtype, [&](auto to_type) {
      const auto* source = reinterpret_cast<const decltype(from_type)*>(from);
      auto* target = reinterpret_cast<decltype(to_type)*>(to);
      for (int64_t i = 0; i < count; ++i) {
        target[i] = Make<decltype(to_type)>(Plain(source[i]));
      }
    });
  });
}

}  // namespace gpupool::engine
