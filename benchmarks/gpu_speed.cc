// How long do steps of our programs take on a GPU?
//
//   gpu_speed train-mlp|train-cnn|infer-cnn [BATCH] [--profile]
//   gpu_speed h2d     GiB/s of copies from staging memory
//
// Prints one JSON object, {"ms": median} or {"gib_per_s": median}; with
// --profile the time of each node goes to stderr. Ends with 77 where there is
// no GPU. The kernels are measured before they are chosen.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "engine/import/model_programs.h"
#include "engine/passes/pipeline.h"
#include "gpupool/v1/job.pb.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/loaded_on.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kNoGpu = 77;
constexpr double kSeconds = 1.5;
constexpr uint64_t kCopyBytes = uint64_t{256} << 20;

v1::ModelSpec Mlp() {
  return ModelFromText(R"pb(
    input_shape: [ 784 ]
    layers { dense { units: 128 } }
    layers { relu {} }
    layers { dense { units: 10 } }
  )pb");
}

// As the Cnn of benchmarks/peers/gpu_peer.py.
v1::ModelSpec Cnn() {
  return ModelFromText(R"pb(
    input_shape: [ 1, 28, 28 ]
    layers { conv2d { filters: 32 kernel: 3 padding: 1 } }
    layers { batch_norm {} }
    layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { conv2d { filters: 64 kernel: 3 padding: 1 } }
    layers { batch_norm {} }
    layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { flatten {} }
    layers { dense { units: 10 } }
  )pb");
}

double Median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

// Seconds of one call, the median over kSeconds of calls.
template <typename Function>
double Measure(const Function& call) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  for (int i = 0; i < 5; ++i) call();
  std::vector<double> times;
  for (const auto begin = Clock::now();
       seconds(begin) < kSeconds || times.size() < 20;) {
    const auto start = Clock::now();
    call();
    times.push_back(seconds(start));
  }
  return Median(std::move(times));
}

void Demand(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << std::endl;
  std::exit(1);
}

Graph Program(const v1::ModelSpec& model, bool training, int batch) {
  Graph graph;
  if (training) {
    v1::TrainingSpec spec =
        TrainingFromText("cross_entropy {} adam { learning_rate: 0.001 }");
    spec.set_batch_size(static_cast<uint32_t>(batch));
    graph = BuildTrainingGraph(model, {}, spec)->graph;
  } else {
    graph = BuildInferenceGraph(model, false, batch)->graph;
  }
  Demand(RunPasses(graph, {}, nullptr));
  return graph;
}

void RunModel(Gpu& gpu, const std::string& name, int batch, bool profiled) {
  const bool training = name.substr(0, 5) == "train";
  const bool mlp = name.find("mlp") != std::string::npos;
  LoadedOn loaded(&gpu.backend(), &gpu.allocator(),
                  Program(mlp ? Mlp() : Cnn(), training, batch),
                  {.tensor_float32 = true, .benchmark = true});
  loaded.SetInputs(1);
  const double seconds = Measure([&] { Demand(loaded.executor().Run()); });
  std::printf("{\"ms\": %.6f}\n", 1e3 * seconds);
  if (!profiled) return;
  Profile profile;
  for (int i = 0; i < 5; ++i) {
    Demand(loaded.executor().RunProfiled(&profile, gpu.device().timer()));
  }
  std::cerr << profile.Table(loaded.executor().program().graph());
}

void CopyToDevice(Gpu& gpu) {
  auto staging = gpu.transfer().AllocateStaging(kCopyBytes);
  Demand(staging.status());
  auto block = gpu.allocator().Allocate(kCopyBytes, {"bench", "copy"});
  Demand(block.status());
  const double seconds = Measure([&] {
    Demand(gpu.transfer().CopyToDevice(block->data(),
                                       {(*staging)->data(), kCopyBytes}));
    Demand(gpu.transfer().Synchronize());
  });
  std::printf("{\"gib_per_s\": %.3f}\n",
              static_cast<double>(kCopyBytes) / (uint64_t{1} << 30) / seconds);
}

int Main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const int batch = argc > 2 ? std::atoi(argv[2]) : 64;
  if (name.empty() || batch < 1) {
    std::cerr << "gpu_speed train-mlp|train-cnn|infer-cnn|h2d [BATCH] "
                 "[--profile]\n";
    return 2;
  }
  // The suite's greeting goes to stdout, where only the result belongs.
  std::streambuf* const out = std::cout.rdbuf(std::cerr.rdbuf());
  const auto gpu = Gpu::Get();
  std::cout.rdbuf(out);
  if (!gpu.ok()) {
    std::cerr << gpu.status() << std::endl;
    return kNoGpu;
  }
  if (name == "h2d") {
    CopyToDevice(**gpu);
  } else {
    RunModel(**gpu, name, batch, std::string(argv[argc - 1]) == "--profile");
  }
  return 0;
}

}  // namespace
}  // namespace gpupool::engine::testing

int main(int argc, char** argv) {
  return gpupool::engine::testing::Main(argc, argv);
}
