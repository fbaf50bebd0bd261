// Programs of elementwise functors as plain data, and packs of elements that
// move as one. (Host and device; plain C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/arithmetic/walk.h"

namespace gpupool::engine::portable {

// At least the limits of engine/passes/fuse/fuse_elementwise.h.
inline constexpr int kMaxProgramInputs = 10;
inline constexpr int kMaxProgramSteps = 24;
inline constexpr int kMaxProgramResults = 4;
inline constexpr int kMaxOperands = kMaxProgramInputs + kMaxProgramSteps;

// The places of an operand's elements that belong to a pack of results.
enum class Access : uint8_t {
  kLinear,  // at the same places as the results
  kScalar,  // all at the first place
  kRow,     // next to each other, as a pack
  kRepeat,  // all at one place
  kWalk,    // each at its own place
};

using ProgramWalk = Walk<kMaxProgramInputs>;

struct ProgramInput {
  const void* data = nullptr;
  DType type = DType::kFloat32;
  Access access = Access::kLinear;
};

enum class StepKind : uint8_t {
  kUnary,           // UnaryFunction
  kUnaryGrad,       // UnaryFunction
  kBinary,          // BinaryFunction
  kActivation,      // Activation
  kActivationGrad,  // Activation
  kWhere,
  kCast,
};

// Operand k is input k, or the result of step k - input_count.
struct ProgramStep {
  StepKind kind = StepKind::kCast;
  uint8_t function = 0;
  DType operand_type = DType::kFloat32;  // of the last operand
  DType type = DType::kFloat32;          // of the result
  uint8_t operands[3] = {0, 0, 0};       // unused ones repeat the first
  double alpha = 0, beta = 0;
};

struct ProgramResult {
  void* data = nullptr;
  DType type = DType::kFloat32;
  int32_t operand = 0;
};

struct ElementwiseProgram {
  int64_t count = 0;  // elements of each result
  int32_t input_count = 0;
  int32_t step_count = 0;
  int32_t result_count = 0;
  ProgramInput inputs[kMaxProgramInputs];
  ProgramStep steps[kMaxProgramSteps];
  ProgramResult results[kMaxProgramResults];
  ProgramWalk walk;  // over the inputs
};

// A bool in a computation with floating numbers.
struct Truth {
  uint8_t byte;
};
GPUPOOL_HOST_DEVICE inline float ToFloat(Truth x) {
  return x.byte != 0 ? 1.0f : 0.0f;
}
template <>
GPUPOOL_HOST_DEVICE inline Truth FromFloat<Truth>(float x) {
  return {static_cast<uint8_t>(x != 0.0f ? 1 : 0)};
}

// Returns x rounded to a floating type of at most 32 bits, or to a bool.
GPUPOOL_HOST_DEVICE inline float RoundTo(DType type, float x) {
  switch (type) {
    case DType::kBFloat16:
      return ToFloat(FromFloat<BFloat16>(x));
    case DType::kFloat16:
      return ToFloat(FromFloat<Float16>(x));
    case DType::kBool:
      return x != 0.0f ? 1.0f : 0.0f;
    default:
      return x;
  }
}

// Elements that one instruction moves. At most 16 bytes.
template <typename T, int kElements>
struct alignas(sizeof(T) * kElements) Pack {
  T elements[kElements];
};

// Reads `count` of the kWidth elements at `from`, which must be aligned to
// kWidth elements. The rest of `to` stays.
template <typename T, int kWidth>
GPUPOOL_HOST_DEVICE inline void ReadPack(const T* from, int count, float* to) {
  constexpr int kMost = static_cast<int>(16 / sizeof(T));
  constexpr int kElements = kWidth < kMost ? kWidth : kMost;
  if (count < kWidth) {
    // Bounds known at compile time keep `to` in registers.
    for (int e = 0; e < kWidth; ++e) {
      if (e < count) to[e] = ToFloat(from[e]);
    }
    return;
  }
  for (int at = 0; at < kWidth; at += kElements) {
    const auto pack = *reinterpret_cast<const Pack<T, kElements>*>(from + at);
    for (int e = 0; e < kElements; ++e) to[at + e] = ToFloat(pack.elements[e]);
  }
}

template <typename T, int kWidth>
GPUPOOL_HOST_DEVICE inline void WritePack(const float* from, int count, T* to) {
  constexpr int kMost = static_cast<int>(16 / sizeof(T));
  constexpr int kElements = kWidth < kMost ? kWidth : kMost;
  if (count < kWidth) {
    for (int e = 0; e < kWidth; ++e) {
      if (e < count) to[e] = FromFloat<T>(from[e]);
    }
    return;
  }
  for (int at = 0; at < kWidth; at += kElements) {
    Pack<T, kElements> pack;
    for (int e = 0; e < kElements; ++e) {
      pack.elements[e] = FromFloat<T>(from[at + e]);
    }
    *reinterpret_cast<Pack<T, kElements>*>(to + at) = pack;
  }
}

}  // namespace gpupool::engine::portable
