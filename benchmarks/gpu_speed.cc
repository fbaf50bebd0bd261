// How long do steps of our programs take on a GPU?
//
//   gpu_speed CASE [BATCH] [--profile]    {"ms": median}
//   gpu_speed plan CASE [BATCH]
//       the bytes that the case would need on an H200 that is described to
//       NVIDIA's libraries, or with portable kernels if there are no such
//       libraries; needs no GPU
//   gpu_speed next-batch CASE [BATCH]
//       {"ms": median of a training step during which the next batch is
//       copied, "without": median of a step that first copies its own batch},
//       in turns
//   gpu_speed copy to-device|from-device KIB
//       {"gib_per_s": median, "bare": the same for a loop of cudaMemcpyAsync}
//
// CASE is train-MODEL or infer-MODEL with mlp, cnn (both in TF32), resnet50,
// gpt2 (both in bf16) or, to try it out, tiny-resnet and tiny-gpt2. Prints one
// JSON object. With --profile the time of each node goes to stderr. A run
// copies the inputs to the device and the outputs back. The kernels are
// measured before they are chosen. Ends with 77 on a machine without a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bare_copy.h"
#include "benchmarks/gpu_case.h"
#include "benchmarks/next_batch.h"
#include "engine/backends/portable/portable_backend.h"
#include "engine/base/check.h"
#include "engine/runtime/device_module.h"
#include "tests/engine/backends/cuda/device_descriptions.h"
#include "tests/gpu/gpu.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kNoGpu = 77;
constexpr double kSeconds = 1.5;

double Median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Returns the seconds of one call, the median over kSeconds of calls.
template <typename Function>
double Measure(const Function& call) {
  for (int i = 0; i < 5; ++i) call();
  std::vector<double> times;
  for (const auto begin = Clock::now();
       SecondsSince(begin) < kSeconds || times.size() < 20;) {
    const auto start = Clock::now();
    call();
    times.push_back(SecondsSince(start));
  }
  return Median(std::move(times));
}

// The seconds of each call of two functions.
struct Turns {
  std::vector<double> first, second;
};

// Measures two functions like Measure, in turns.
template <typename First, typename Second>
void MeasureInTurns(const First& first, const Second& second, Turns& turns) {
  for (int i = 0; i < 5; ++i) {
    first();
    second();
  }
  for (const auto begin = Clock::now();
       SecondsSince(begin) < 2 * kSeconds || turns.first.size() < 20;) {
    const auto start = Clock::now();
    first();
    const auto middle = Clock::now();
    second();
    turns.second.push_back(SecondsSince(middle));
    turns.first.push_back(
        std::chrono::duration<double>(middle - start).count());
  }
}

void Demand(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << std::endl;
  std::exit(1);
}

template <typename T>
T Demand(absl::StatusOr<T> value) {
  Demand(value.status());
  return *std::move(value);
}

// Returns the GPU. Ends the process if there is none.
Gpu& TheGpu() {
  // The greeting of the GPU suite goes to stdout, where only the result
  // belongs.
  std::streambuf* const out = std::cout.rdbuf(std::cerr.rdbuf());
  const auto gpu = Gpu::Get();
  std::cout.rdbuf(out);
  if (gpu.ok()) return **gpu;
  std::cerr << gpu.status() << std::endl;
  std::exit(kNoGpu);
}

void RunCase(const GpuCase& gpu_case, bool profiled) {
  Gpu& gpu = TheGpu();
  const auto program = Demand(CompileCase(
      gpu_case, {&gpu.backend(), &gpu.allocator(), {.benchmark = true}}));
  Demand(program->Load());
  program->FillInputs(1, gpu_case.classes);
  const uint64_t allocations = gpu.allocator().Statistics().allocations;
  const double seconds = Measure([&] { Demand(program->Run()); });
  // A compiled step allocates no memory. If it did, the figures would be those
  // of another program.
  GPUPOOL_CHECK(gpu.allocator().Statistics().allocations == allocations);
  std::printf("{\"ms\": %.6f}\n", 1e3 * seconds);
  if (!profiled) return;
  Profile profile;
  for (int i = 0; i < 5; ++i) {
    Demand(program->executor().RunProfiled(&profile, gpu.device().timer()));
  }
  std::cerr << profile.Table(program->program().graph());
}

// Measures both kinds of steps. They make the same number of steps, with the
// same results.
void RunNextBatch(const GpuCase& gpu_case) {
  Gpu& gpu = TheGpu();
  Demand(gpu.device().MakeCurrent());
  const auto steps = Demand(NextBatchSteps::Create(
      gpu_case, {&gpu.backend(), &gpu.allocator(), {.deterministic = true}}));
  Turns turns;
  MeasureInTurns([&] { Demand(steps->StepAhead()); },
                 [&] { Demand(steps->StepWithout()); }, turns);
  GPUPOOL_CHECK(steps->Agree());
  std::printf("{\"ms\": %.6f, \"without\": %.6f}\n", 1e3 * Median(turns.first),
              1e3 * Median(turns.second));
}

// Returns kernels for an H200, chosen by NVIDIA's libraries without a GPU, or
// null if the libraries cannot do that.
std::unique_ptr<DeviceBackend> DescribedGpu() {
  const auto module = LoadDeviceModule(CudaModulePath());
  if (!module.ok()) return nullptr;
  auto planner = (*module)->MakePlanner(
      {.name = "NVIDIA H200",
       .compute_capability = "9.0",
       .multiprocessors = 132,
       .threads_per_multiprocessor = 2048,
       .properties = std::string(cuda::kH200Description)},
      {.vendor_library_dirs = VendorLibraryDirs()});
  return planner.ok() ? *std::move(planner) : nullptr;
}

void PrintPlan(const GpuCase& gpu_case) {
  std::unique_ptr<DeviceBackend> backend = DescribedGpu();
  const char* const kernels = backend == nullptr ? "portable" : "H200";
  if (backend == nullptr) {
    backend = std::make_unique<portable::PortableBackend>();
  }
  const auto program =
      Demand(CompileCase(gpu_case, {.backend = backend.get()}));
  const PlannedBytes bytes = program->bytes();
  const uint64_t next_batch =
      gpu_case.training ? LandingOf(program->program()).bytes : 0;
  std::printf(
      "{\"kernels\": \"%s\", \"next_batch\": %llu, "
      "\"parameters\": %llu, \"peak_bytes\": %llu, \"weights\": %llu, "
      "\"optimizer\": %llu, \"gradients\": %llu, \"activations\": %llu, "
      "\"workspace\": %llu, \"gflops\": %.1f}\n",
      kernels, static_cast<unsigned long long>(next_batch),
      static_cast<unsigned long long>(program->model().parameters()),
      static_cast<unsigned long long>(bytes.peak),
      static_cast<unsigned long long>(bytes.weights),
      static_cast<unsigned long long>(bytes.optimizer),
      static_cast<unsigned long long>(bytes.gradients),
      static_cast<unsigned long long>(bytes.activations),
      static_cast<unsigned long long>(bytes.workspace),
      1e-9 * static_cast<double>(GraphFlops(program->program().graph())));
}

void MeasureCopy(bool to_device, uint64_t bytes) {
  Gpu& gpu = TheGpu();
  Demand(gpu.device().MakeCurrent());
  const auto staging = Demand(gpu.transfer().AllocateStaging(bytes));
  const auto block = Demand(gpu.allocator().Allocate(bytes, {"bench", "copy"}));
  const double ours = Measure([&] {
    Demand(to_device ? gpu.transfer().CopyToDevice(block.data(),
                                                   {staging->data(), bytes})
                     : gpu.transfer().CopyFromDevice({staging->data(), bytes},
                                                     block.data()));
    Demand(gpu.transfer().Synchronize());
  });
  const auto bare = Demand(BareCopy::Create(bytes));
  const double loop = Measure(
      [&] { Demand(to_device ? bare->ToDevice() : bare->FromDevice()); });
  const double gib = static_cast<double>(bytes) / (uint64_t{1} << 30);
  std::printf("{\"gib_per_s\": %.3f, \"bare\": %.3f}\n", gib / ours,
              gib / loop);
}

int Main(const std::vector<std::string>& arguments) {
  const auto at = [&](size_t i) {
    return i < arguments.size() ? arguments[i] : std::string();
  };
  if (at(0) == "copy" && std::atoll(at(2).c_str()) > 0) {
    MeasureCopy(at(1) == "to-device",
                static_cast<uint64_t>(std::atoll(at(2).c_str())) << 10);
    return 0;
  }
  const size_t first = at(0) == "plan" || at(0) == "next-batch" ? 1 : 0;
  const int64_t batch = std::max(std::atoll(at(first + 1).c_str()), 0LL);
  const auto gpu_case = FindGpuCase(at(first), batch == 0 ? 64 : batch);
  if (!gpu_case.ok()) {
    std::cerr << gpu_case.status()
              << "\ngpu_speed [plan | next-batch] CASE [BATCH] "
              << "[--profile] | copy to-device|from-device KIB\n";
    return 2;
  }
  if (at(0) == "next-batch") {
    RunNextBatch(*gpu_case);
  } else if (first == 1) {
    PrintPlan(*gpu_case);
  } else {
    RunCase(*gpu_case, arguments.back() == "--profile");
  }
  return 0;
}

}  // namespace
}  // namespace gpupool::engine::testing

int main(int argc, char** argv) {
  return gpupool::engine::testing::Main({argv + 1, argv + argc});
}
