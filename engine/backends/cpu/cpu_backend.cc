#include "engine/backends/cpu/cpu_backend.h"

#include <hwy/targets.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/all_reduce.h"
#include "engine/backends/cpu/elementwise/tile_program.h"
#include "engine/backends/cpu/fallback.h"
#include "engine/backends/cpu/flush_denormals.h"
#include "engine/backends/cpu/kernel/context.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/backends/cpu/kernel/half_rows.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/widened.h"
#include "engine/backends/function_kernel.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

using Maker = KernelOr (*)(const CompileRequest&, const CpuContext&);

// The elements that a maker's kernels take as they are.
enum class Types : uint8_t {
  kNone,      // there is no maker
  kFloat32,   // 16-bit numbers are widened
  kBfloat16,  // float32, and bfloat16 where oneDNN and the processor can
  kCodes,     // these and integers of 8 bits
  kTile,      // the types of tile programs
  kAny,
};

struct Row {
  Maker maker;
  Types types;
};

constexpr std::array<Row, kOpCount> kRows = {{
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, type_rule, layout,   \
                   in_place, traits, cost, autocast, gradient, reference, cpu, \
                   cpu_types, portable, ...)                                   \
  {cpu, Types::cpu_types},
#include "engine/graph/op_table.inc"
}};

const Row& RowOf(Op op) { return kRows[static_cast<size_t>(op)]; }

// Returns whether kernels for float32 take the value as it is. Learning rates
// are scalars of float64. Labels, indices and counts are integers.
bool IsSideType(const Value& value) {
  return !IsFloating(value.dtype) || value.dtype == DType::kFloat32 ||
         (value.dtype == DType::kFloat64 && value.shape.rank() == 0);
}

bool IsCode(const Value& value) {
  return value.dtype == DType::kUint8 || value.dtype == DType::kInt8;
}

enum class Route : uint8_t {
  kDirect,    // the kernel takes the types as they are
  kWidened,   // the kernel takes float32 in place of 16-bit numbers
  kFallback,  // the reference kernel
};

Route RouteOf(const Graph& graph, const Node& node) {
  const Types types = RowOf(node.op).types;
  if (types == Types::kNone) return Route::kFallback;
  if (types == Types::kAny) return Route::kDirect;
  if (types == Types::kCodes && IsCode(graph.value(node.inputs[0]))) {
    return Route::kDirect;
  }
  const bool tile = types == Types::kTile;
  bool half = false;
  const auto fast = [&](ValueId id) {
    const Value& value = graph.value(id);
    half = half || IsHalf(value.dtype);
    return tile ? IsTileType(value.dtype)
                : IsSideType(value) || IsHalf(value.dtype);
  };
  const bool all_fast =
      IsTileType(graph.value(node.inputs[0]).dtype) &&
      std::all_of(node.inputs.begin(), node.inputs.end(), fast) &&
      std::all_of(node.outputs.begin(), node.outputs.end(), fast);
  if (!all_fast) return Route::kFallback;
  // Tile programs convert 16-bit numbers themselves.
  return half && !tile ? Route::kWidened : Route::kDirect;
}

bool TakesBfloat16(Types types) {
  return types == Types::kBfloat16 || types == Types::kCodes;
}

bool AllOutputsEmpty(const CompileRequest& request) {
  const ValueIds& outputs = request.node.outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId id) {
    return request.graph.value(id).shape.elements() == 0;
  });
}

// Returns a null kernel when there is no fast one for these types or shapes.
KernelOr MakeDirect(const CompileRequest& request, const CpuContext& context) {
  try {
    return RowOf(request.node.op).maker(request, context);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError("oneDNN ran out of host memory");
    }
    // Not an error: another kernel takes the node.
    if (error.status == dnnl_unimplemented) return nullptr;
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

bool HasFloat16(const CompileRequest& request) {
  for (const ValueIds* ids : {&request.node.inputs, &request.node.outputs}) {
    for (const ValueId id : *ids) {
      if (request.graph.value(id).dtype == DType::kFloat16) return true;
    }
  }
  return false;
}

// Larger dimensions end the process inside oneDNN: it counts blocks of them in
// int, wraps and divides by zero.
constexpr int64_t kMostOfDimension = int64_t{1} << 30;

// Returns whether oneDNN may get a size that it cannot count.
bool IsBeyondOneDnn(const CompileRequest& request) {
  const Types types = RowOf(request.node.op).types;
  if (types == Types::kAny || types == Types::kTile) return false;
  for (const ValueIds* ids : {&request.node.inputs, &request.node.outputs}) {
    for (const ValueId id : *ids) {
      const Shape& shape = request.graph.value(id).shape;
      if (shape.rank() < 2) continue;
      for (int i = 0; i < shape.rank(); ++i) {
        if (shape[i] > kMostOfDimension) return true;
      }
    }
  }
  return false;
}

KernelOr MakeFast(const CompileRequest& request, const CpuContext& context) {
  if (IsBeyondOneDnn(request)) return nullptr;
  switch (RouteOf(request.graph, request.node)) {
    case Route::kDirect:
      return MakeDirect(request, context);
    case Route::kWidened:
      // Converts nothing where oneDNN takes bfloat16. It never takes float16
      // here.
      if (TakesBfloat16(RowOf(request.node.op).types) && !HasFloat16(request)) {
        ASSIGN_OR_RETURN(auto kernel, MakeDirect(request, context));
        if (kernel != nullptr) return kernel;
      }
      return MakeWidened(request, context, MakeDirect);
    case Route::kFallback:
      break;
  }
  return nullptr;
}

}  // namespace

CpuBackend::CpuBackend(int threads)
    : context_(std::make_unique<CpuContext>(threads)) {
  GPUPOOL_CHECK(threads >= 1);
  // Kernels keep the addresses of their functions. So Highway must choose its
  // target first: until then, the addresses are those of its slow chooser.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
// The flag belongs to a thread, so each thread of the team sets it.
#pragma omp parallel num_threads(threads)
  FlushDenormals();
}

CpuBackend::~CpuBackend() = default;

absl::StatusOr<std::unique_ptr<Kernel>> CpuBackend::Compile(
    const CompileRequest& request) {
  // No other kernel then has to handle empty outputs.
  if (AllOutputsEmpty(request)) {
    return MakeKernel([](const KernelArguments&) {});
  }
  if (IsAllReduce(request.node.op)) return MakeAllReduce(request);
  ASSIGN_OR_RETURN(auto kernel, MakeFast(request, *context_));
  if (kernel != nullptr) return kernel;
  return MakeFallback(request);
}

bool CpuBackend::PrefersIntegerProducts() const {
  return HasFastIntegerProducts();
}

void CpuBackend::BeginRun() {
  omp_set_num_threads(context_->threads());
  FlushDenormals();
}

bool IsFastOnCpu(const Graph& graph, const Node& node) {
  if (IsAllReduce(node.op)) return true;
  return RouteOf(graph, node) != Route::kFallback;
}

bool IsFastOnCpu(Op op, DType dtype) {
  if (IsAllReduce(op)) return dtype == DType::kFloat32;
  const Types types = RowOf(op).types;
  return types != Types::kNone &&
         (dtype == DType::kFloat32 || IsHalf(dtype) || types == Types::kAny);
}

}  // namespace gpupool::engine
