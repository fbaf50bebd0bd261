// Conversions between float32 and codes of 8 bits, and sums of such codes.
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/function_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/elementwise/codes.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "engine/backends/cpu/kernel/simd-inl.h"

#ifndef GPUPOOL_ENGINE_BACKENDS_CPU_CODES_ONCE_
#define GPUPOOL_ENGINE_BACKENDS_CPU_CODES_ONCE_
namespace gpupool::engine {

// The attributes in the types of the loops. Limits are before the zero point is
// added.
struct ToCodes {
  float scale, low, high;
  int32_t zero;
};
struct FromCodes {
  float scale;
  int32_t zero;
};
struct AddCodes {
  FromCodes a, b;
  ToCodes sum;
};

}  // namespace gpupool::engine
#endif  // GPUPOOL_ENGINE_BACKENDS_CPU_CODES_ONCE_

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

using WholeTag = hn::RebindToSigned<FloatTag>;

// Loads as many codes as there are lanes.
template <typename Code>
HWY_INLINE FloatVector LoadReal(const Code* codes, const FromCodes& from) {
  const FloatTag d;
  const hn::Rebind<Code, FloatTag> narrow;
  const auto whole =
      hn::Sub(hn::PromoteTo(WholeTag(), hn::LoadU(narrow, codes)),
              hn::Set(WholeTag(), from.zero));
  return hn::Mul(hn::ConvertTo(d, whole), hn::Set(d, from.scale));
}

template <typename Code>
HWY_INLINE void StoreCode(FloatVector x, Code* codes, const ToCodes& to) {
  const FloatTag d;
  const hn::Rebind<Code, FloatTag> narrow;
  const FloatVector held =
      hn::Min(hn::Max(hn::Div(x, hn::Set(d, to.scale)), hn::Set(d, to.low)),
              hn::Set(d, to.high));
  // Rounds halves to the even neighbour.
  const auto whole =
      hn::Add(hn::NearestInt(held), hn::Set(WholeTag(), to.zero));
  hn::StoreU(hn::DemoteTo(narrow, whole), narrow, codes);
}

// Calls body(inputs, output) for each full vector, and for copies of the last
// elements, which do not fill one.
template <typename From, typename To, int kInputs, typename Body>
HWY_INLINE void MapCodes(const From* const (&x)[kInputs], To* y, int64_t count,
                         const Body& body) {
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const From* at[kInputs];
    for (int k = 0; k < kInputs; ++k) at[k] = x[k] + i;
    body(at, y + i);
  }
  if (i == count) return;
  HWY_ALIGN From rest[kInputs][16] = {};
  HWY_ALIGN To result[16];
  const int64_t left = count - i;
  const From* at[kInputs];
  for (int k = 0; k < kInputs; ++k) {
    for (int64_t j = 0; j < left; ++j) rest[k][j] = x[k][i + j];
    at[k] = rest[k];
  }
  body(at, result);
  for (int64_t j = 0; j < left; ++j) y[i + j] = result[j];
}

template <typename Code>
void QuantizeRow(const float* x, Code* y, int64_t count, const ToCodes& to) {
  const float* const inputs[] = {x};
  MapCodes<float, Code, 1>(
      inputs, y, count, [&](const float* const* at, Code* result) HWY_ATTR {
        StoreCode(hn::LoadU(FloatTag(), at[0]), result, to);
      });
}

template <typename Code>
void DequantizeRow(const Code* x, float* y, int64_t count,
                   const FromCodes& from) {
  const Code* const inputs[] = {x};
  MapCodes<Code, float, 1>(
      inputs, y, count, [&](const Code* const* at, float* result) HWY_ATTR {
        hn::StoreU(LoadReal(at[0], from), FloatTag(), result);
      });
}

template <typename Code>
void AddRow(const Code* const (&x)[2], Code* y, int64_t count,
            const AddCodes& add) {
  MapCodes<Code, Code, 2>(
      x, y, count, [&](const Code* const* at, Code* result) HWY_ATTR {
        StoreCode(hn::Add(LoadReal(at[0], add.a), LoadReal(at[1], add.b)),
                  result, add.sum);
      });
}

void QuantizeUnsigned(const float* x, uint8_t* y, int64_t count,
                      const ToCodes& to) {
  QuantizeRow(x, y, count, to);
}
void QuantizeSigned(const float* x, int8_t* y, int64_t count,
                    const ToCodes& to) {
  QuantizeRow(x, y, count, to);
}
void DequantizeUnsigned(const uint8_t* x, float* y, int64_t count,
                        const FromCodes& from) {
  DequantizeRow(x, y, count, from);
}
void DequantizeSigned(const int8_t* x, float* y, int64_t count,
                      const FromCodes& from) {
  DequantizeRow(x, y, count, from);
}
void AddUnsigned(const uint8_t* const (&x)[2], uint8_t* y, int64_t count,
                 const AddCodes& add) {
  AddRow(x, y, count, add);
}
void AddSigned(const int8_t* const (&x)[2], int8_t* y, int64_t count,
               const AddCodes& add) {
  AddRow(x, y, count, add);
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(QuantizeUnsigned);
HWY_EXPORT(QuantizeSigned);
HWY_EXPORT(DequantizeUnsigned);
HWY_EXPORT(DequantizeSigned);
HWY_EXPORT(AddUnsigned);
HWY_EXPORT(AddSigned);

// Parts of a loop begin at a new cache line of codes.
constexpr int64_t kGrain = 64;

ToCodes To(const QuantizeAttributes& to) {
  return {.scale = static_cast<float>(to.scale),
          .low = static_cast<float>(to.codes.low - to.codes.zero),
          .high = static_cast<float>(to.codes.high - to.codes.zero),
          .zero = to.codes.zero};
}

FromCodes From(const DequantizeAttributes& from) {
  return {.scale = static_cast<float>(from.scale), .zero = from.zero};
}

template <typename Code>
KernelOr MakeQuantize(const ToCodes& to, int64_t size, int threads) {
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, size, kGrain, [&](int64_t begin, int64_t end) {
      const float* x = at.in(0) + begin;
      Code* y = at.out<Code>(0) + begin;
      if constexpr (std::is_signed_v<Code>) {
        HWY_DYNAMIC_DISPATCH(QuantizeSigned)(x, y, end - begin, to);
      } else {
        HWY_DYNAMIC_DISPATCH(QuantizeUnsigned)(x, y, end - begin, to);
      }
    });
  });
}

template <typename Code>
KernelOr MakeDequantize(const FromCodes& from, int64_t size, int threads) {
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, size, kGrain, [&](int64_t begin, int64_t end) {
      const Code* x = at.in<Code>(0) + begin;
      float* y = at.out(0) + begin;
      if constexpr (std::is_signed_v<Code>) {
        HWY_DYNAMIC_DISPATCH(DequantizeSigned)(x, y, end - begin, from);
      } else {
        HWY_DYNAMIC_DISPATCH(DequantizeUnsigned)(x, y, end - begin, from);
      }
    });
  });
}

template <typename Code>
KernelOr MakeAdd(const AddCodes& add, int64_t size, int threads) {
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(threads, size, kGrain, [&](int64_t begin, int64_t end) {
      const Code* const x[] = {at.in<Code>(0) + begin, at.in<Code>(1) + begin};
      Code* y = at.out<Code>(0) + begin;
      if constexpr (std::is_signed_v<Code>) {
        HWY_DYNAMIC_DISPATCH(AddSigned)(x, y, end - begin, add);
      } else {
        HWY_DYNAMIC_DISPATCH(AddUnsigned)(x, y, end - begin, add);
      }
    });
  });
}

// Makes the kernel for codes of that type.
template <typename Code>
KernelOr MakeFor(const CompileRequest& request, int threads) {
  const Node& node = request.node;
  const int64_t size = OutputOf(request, 0).shape.elements();
  switch (node.op) {
    case Op::kQuantize:
      return MakeQuantize<Code>(To(node.get<QuantizeAttributes>()), size,
                                threads);
    case Op::kDequantize:
      return MakeDequantize<Code>(From(node.get<DequantizeAttributes>()), size,
                                  threads);
    case Op::kQuantizedAdd: {
      const auto& add = node.get<QuantizedAddAttributes>();
      return MakeAdd<Code>({From(add.a), From(add.b), To(add.sum)}, size,
                           threads);
    }
    default:
      return nullptr;
  }
}

}  // namespace

KernelOr MakeCodes(const CompileRequest& request, const CpuContext& context) {
  const Value& y = OutputOf(request, 0);
  const DType codes =
      request.node.op == Op::kDequantize ? InputOf(request, 0).dtype : y.dtype;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    const Value& x = InputOf(request, i);
    const bool mixed =
        request.node.op == Op::kQuantizedAdd && x.dtype != y.dtype;
    if (mixed || x.layout != y.layout) return nullptr;
  }
  const int threads = context.ThreadsForBytes(MovedBytes(request));
  return codes == DType::kUint8 ? MakeFor<uint8_t>(request, threads)
                                : MakeFor<int8_t>(request, threads);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
