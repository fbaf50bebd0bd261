#include "engine/device_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/graph/graph.h"
#include "engine/runtime/device_backend.h"
#include "engine/session_device.h"
#include "engine/tensor/convert.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr double kCaseSeconds = 0.03;     // least time of a measurement
constexpr double kProductSeconds = 0.1;   // limit of the time of one product
constexpr double kQueuedSeconds = 0.002;  // of products that are queued at once
constexpr int kMostQueued = 100;
constexpr size_t kLeastRepeats = 3;
constexpr size_t kMostRepeats = 1000;
constexpr uint32_t kAllocationsAtOnce = 16;

constexpr char kHolder[] = "bench";
constexpr uint64_t kKib = 1024;
constexpr uint64_t kBenchBytes[] = {4 * kKib, 64 * kKib, 1024 * kKib,
                                    16 * 1024 * kKib, 64 * 1024 * kKib};
constexpr uint32_t kBenchSizes[] = {128, 256, 512, 1024, 2048, 4096};

struct BenchCopy {
  v1::DeviceBench::Path path = v1::DeviceBench::PATH_UNSPECIFIED;
  bool pinned = false;
  uint64_t bytes = 0;
};

struct ProductKind {
  const char* name;
  DType dtype;
  bool tensor_float32;
};
constexpr ProductKind kProductKinds[] = {
    {"float32", DType::kFloat32, false},
    {"tf32", DType::kFloat32, true},
    {"bfloat16", DType::kBFloat16, false},
    {"float16", DType::kFloat16, false},
};

struct BenchProduct {
  const ProductKind* kind = nullptr;
  uint32_t size = 0;
};

struct BenchAllocation {
  uint64_t bytes = 0;
};

using BenchCase = std::variant<BenchCopy, BenchProduct, BenchAllocation>;

std::vector<BenchCase> MakeCases() {
  using Bench = v1::DeviceBench;
  std::vector<BenchCase> cases;
  for (const auto path : {Bench::TO_DEVICE, Bench::FROM_DEVICE}) {
    for (const bool pinned : {false, true}) {
      for (const uint64_t bytes : kBenchBytes) {
        cases.push_back(BenchCopy{path, pinned, bytes});
      }
    }
  }
  for (const uint64_t bytes : kBenchBytes) {
    cases.push_back(BenchCopy{Bench::ON_DEVICE, false, bytes});
  }
  for (const ProductKind& kind : kProductKinds) {
    for (const uint32_t size : kBenchSizes) {
      cases.push_back(BenchProduct{&kind, size});
    }
  }
  for (const uint64_t bytes : kBenchBytes) {
    cases.push_back(BenchAllocation{bytes});
  }
  return cases;
}

const std::vector<BenchCase>& AllBenchCases() {
  static const auto* const cases = new std::vector<BenchCase>(MakeCases());
  return *cases;
}

struct BenchTime {
  double seconds = 0;  // median of one call
  uint32_t repeats = 0;
};

double BenchSecondsSince(BenchClock::time_point begin) {
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

// Measures calls of `once`, after one that does not count.
template <typename Function>
absl::StatusOr<BenchTime> MeasureCalls(const Function& once) {
  RETURN_IF_ERROR(once());
  std::vector<double> times;
  const auto begin = BenchClock::now();
  while (times.size() < kLeastRepeats ||
         (times.size() < kMostRepeats &&
          BenchSecondsSince(begin) < kCaseSeconds)) {
    const auto start = BenchClock::now();
    RETURN_IF_ERROR(once());
    times.push_back(BenchSecondsSince(start));
  }
  const auto middle =
      times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return BenchTime{*middle, static_cast<uint32_t>(times.size())};
}

absl::StatusOr<Allocation> BenchMemory(SessionDevice& device, uint64_t bytes) {
  return device.allocator().Allocate(bytes, {kHolder, "buffers"});
}

// ------------------------------------------------------------------- copies

// Memory of the host, pinned or not.
struct BenchHost {
  std::unique_ptr<StagingBuffer> staging;
  std::vector<std::byte> pageable;

  std::byte* data() {
    return staging != nullptr ? staging->data() : pageable.data();
  }
};

absl::StatusOr<BenchHost> HostBytesFor(Transfer& transfer,
                                       const BenchCopy& copy) {
  BenchHost host;
  if (copy.path == v1::DeviceBench::ON_DEVICE) return host;
  if (copy.pinned) {
    ASSIGN_OR_RETURN(host.staging, transfer.AllocateStaging(copy.bytes));
    // The system gives pages only to memory that was written.
    std::memset(host.staging->data(), 1, copy.bytes);
  } else {
    host.pageable.assign(copy.bytes, std::byte{1});
  }
  return host;
}

absl::Status MeasureCase(SessionDevice& device, const BenchCopy& copy,
                         v1::DeviceBench& bench) {
  Transfer& transfer = device.backend().transfer();
  if (copy.pinned && transfer.host_visible()) return absl::OkStatus();
  ASSIGN_OR_RETURN(BenchHost host, HostBytesFor(transfer, copy));
  ASSIGN_OR_RETURN(const Allocation block, BenchMemory(device, copy.bytes));
  Allocation other;
  if (copy.path == v1::DeviceBench::ON_DEVICE) {
    ASSIGN_OR_RETURN(other, BenchMemory(device, copy.bytes));
  }
  RETURN_IF_ERROR(transfer.Clear(block.data(), copy.bytes));
  ASSIGN_OR_RETURN(
      const BenchTime time, MeasureCalls([&]() -> absl::Status {
        switch (copy.path) {
          case v1::DeviceBench::TO_DEVICE:
            RETURN_IF_ERROR(transfer.CopyToDevice(
                block.data(), absl::MakeSpan(host.data(), copy.bytes)));
            break;
          case v1::DeviceBench::FROM_DEVICE:
            RETURN_IF_ERROR(transfer.CopyFromDevice(
                absl::MakeSpan(host.data(), copy.bytes), block.data()));
            break;
          default:
            RETURN_IF_ERROR(
                transfer.CopyOnDevice(other.data(), block.data(), copy.bytes));
        }
        return transfer.Synchronize();
      }));
  v1::DeviceBench::Copy& result = *bench.add_copies();
  result.set_path(copy.path);
  result.set_pinned(copy.pinned);
  result.set_bytes(copy.bytes);
  result.set_seconds(time.seconds);
  result.set_repeats(time.repeats);
  return absl::OkStatus();
}

// ----------------------------------------------------------------- products

absl::StatusOr<Graph> ProductGraph(const BenchProduct& product) {
  const TensorType matrix = {product.kind->dtype,
                             Shape({product.size, product.size})};
  Graph graph;
  GraphBuilder builder(&graph);
  ASSIGN_OR_RETURN(const ValueId a, builder.Input("a", matrix));
  ASSIGN_OR_RETURN(const ValueId b, builder.Input("b", matrix));
  ASSIGN_OR_RETURN(const ValueId y,
                   builder.EmitOne(Op::kMatMul, {a, b}, MatMulAttributes{}));
  graph.AddOutput("y", y);
  return graph;
}

// Returns a matrix of numbers between -0.5 and 0.5. With zeros a GPU would need
// less power and run faster than with real numbers.
std::vector<std::byte> MatrixBytes(const BenchProduct& product) {
  std::vector<double> row(product.size);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<double>(i * 37 % 251) / 251 - 0.5;
  }
  const uint64_t row_bytes = Shape({product.size}).bytes(product.kind->dtype);
  std::vector<std::byte> matrix(row_bytes * product.size);
  WriteFromDoubles(product.kind->dtype, row, 1, matrix.data());
  for (size_t i = 1; i < product.size; ++i) {
    std::memcpy(matrix.data() + i * row_bytes, matrix.data(), row_bytes);
  }
  return matrix;
}

// A kernel on memory of its own.
struct BoundProduct {
  Graph graph;
  std::unique_ptr<Kernel> kernel;
  Allocation a, b, y, workspace, resident;
};

absl::Status BindProduct(SessionDevice& device, const BenchProduct& product,
                         BoundProduct& bound) {
  const std::vector<std::byte> matrix = MatrixBytes(product);
  for (Allocation* const block : {&bound.a, &bound.b, &bound.y}) {
    ASSIGN_OR_RETURN(*block, BenchMemory(device, matrix.size()));
  }
  ASSIGN_OR_RETURN(bound.workspace,
                   BenchMemory(device, bound.kernel->workspace_bytes()));
  ASSIGN_OR_RETURN(bound.resident,
                   BenchMemory(device, bound.kernel->resident_bytes()));
  Transfer& transfer = device.backend().transfer();
  RETURN_IF_ERROR(transfer.CopyToDevice(bound.a.data(), matrix));
  RETURN_IF_ERROR(transfer.CopyToDevice(bound.b.data(), matrix));
  RETURN_IF_ERROR(transfer.Synchronize());
  RETURN_IF_ERROR(bound.kernel->Bind({{bound.a.data(), bound.b.data()},
                                      {bound.y.data()},
                                      bound.workspace.data(),
                                      bound.resident.data()}));
  return bound.kernel->resident_bytes() > 0 ? bound.kernel->Prepare()
                                            : absl::OkStatus();
}

absl::Status RunProducts(DeviceBackend& backend, const BoundProduct& bound,
                         int count) {
  backend.BeginRun();
  for (int i = 0; i < count; ++i) RETURN_IF_ERROR(bound.kernel->Run());
  return backend.FinishRun(bound.graph);
}

// Returns the result for the next smaller size; null when there is none.
const v1::DeviceBench::Product* SmallerProduct(const BenchProduct& product,
                                               const v1::DeviceBench& bench) {
  if (bench.products().empty()) return nullptr;
  const v1::DeviceBench::Product& last = *bench.products().rbegin();
  return last.data_type() == product.kind->name &&
                 last.size() * 2 == product.size
             ? &last
             : nullptr;
}

absl::Status MeasureCase(SessionDevice& device, const BenchProduct& product,
                         v1::DeviceBench& bench) {
  DeviceBackend& backend = device.backend();
  if (product.kind->tensor_float32 && backend.transfer().host_visible()) {
    return absl::OkStatus();
  }
  if (product.size > kBenchSizes[0]) {
    const v1::DeviceBench::Product* smaller = SmallerProduct(product, bench);
    if (smaller == nullptr) return absl::OkStatus();  // a reason was given
    if (smaller->seconds() * 8 > kProductSeconds) {
      bench.add_skipped(absl::StrCat(
          product.kind->name, " products of ", product.size,
          " rows and larger would take more than ", kProductSeconds, " s"));
      return absl::OkStatus();
    }
  }
  BoundProduct bound;
  ASSIGN_OR_RETURN(bound.graph, ProductGraph(product));
  ASSIGN_OR_RETURN(
      bound.kernel,
      backend.Compile({bound.graph,
                       bound.graph.nodes().front(),
                       {false, false},
                       {.tensor_float32 = product.kind->tensor_float32}}));
  RETURN_IF_ERROR(BindProduct(device, product, bound));
  RETURN_IF_ERROR(RunProducts(backend, bound, 1));
  const auto begin = BenchClock::now();
  RETURN_IF_ERROR(RunProducts(backend, bound, 1));
  // Short products are queued together, so that the wait does not count.
  const double fit = std::ceil(kQueuedSeconds / BenchSecondsSince(begin));
  const int queued =
      static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(kMostQueued)));
  ASSIGN_OR_RETURN(const BenchTime time, MeasureCalls([&] {
                     return RunProducts(backend, bound, queued);
                   }));
  const double size = product.size;
  v1::DeviceBench::Product& result = *bench.add_products();
  result.set_data_type(product.kind->name);
  result.set_size(product.size);
  result.set_seconds(time.seconds / queued);
  if (result.seconds() > 0) {
    result.set_flops(2 * size * size * size / result.seconds());
  }
  result.set_repeats(time.repeats * static_cast<uint32_t>(queued));
  return absl::OkStatus();
}

// -------------------------------------------------------------- allocations

absl::Status MeasureCase(SessionDevice& device,
                         const BenchAllocation& allocation,
                         v1::DeviceBench& bench) {
  ASSIGN_OR_RETURN(
      const BenchTime time, MeasureCalls([&]() -> absl::Status {
        for (uint32_t i = 0; i < kAllocationsAtOnce; ++i) {
          RETURN_IF_ERROR(BenchMemory(device, allocation.bytes).status());
        }
        return absl::OkStatus();
      }));
  v1::DeviceBench::Allocation& result = *bench.add_allocations();
  result.set_bytes(allocation.bytes);
  result.set_seconds(time.seconds / kAllocationsAtOnce);
  result.set_repeats(time.repeats * kAllocationsAtOnce);
  return absl::OkStatus();
}

// -------------------------------------------------------------- the reasons

const char* PathText(v1::DeviceBench::Path path) {
  switch (path) {
    case v1::DeviceBench::TO_DEVICE:
      return "copies to the device";
    case v1::DeviceBench::FROM_DEVICE:
      return "copies from the device";
    default:
      return "copies on the device";
  }
}

std::string BenchNameOf(const BenchCase& bench_case) {
  if (const auto* copy = std::get_if<BenchCopy>(&bench_case)) {
    return absl::StrCat(PathText(copy->path), " of ", copy->bytes, " bytes",
                        copy->pinned ? " of pinned memory" : "");
  }
  if (const auto* product = std::get_if<BenchProduct>(&bench_case)) {
    return absl::StrCat(product->kind->name, " products of ", product->size,
                        " rows and larger");
  }
  return absl::StrCat("allocations of ",
                      std::get<BenchAllocation>(bench_case).bytes, " bytes");
}

// Returns whether only this measurement cannot be made.
bool IsMissing(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnimplemented(status) ||
         absl::IsInvalidArgument(status);
}

}  // namespace

uint32_t BenchCases() { return static_cast<uint32_t>(AllBenchCases().size()); }

absl::Status MeasureBenchCase(SessionDevice& device, uint32_t index,
                              v1::DeviceBench& bench) {
  GPUPOOL_CHECK(index < BenchCases());
  const BenchCase& bench_case = AllBenchCases()[index];
  const absl::Status measured = std::visit(
      [&](const auto& which) { return MeasureCase(device, which, bench); },
      bench_case);
  device.allocator().ForgetHolder(kHolder);
  if (measured.ok() || !IsMissing(measured)) return measured;
  // The allocator's text names all holders.
  bench.add_skipped(absl::StrCat(BenchNameOf(bench_case), ": ",
                                 absl::IsResourceExhausted(measured)
                                     ? "not enough free memory"
                                     : measured.message()));
  return absl::OkStatus();
}

}  // namespace gpupool::engine
