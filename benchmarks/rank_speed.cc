// How long does one training step take on several CPU devices?
//
//   rank_speed mlp|cnn [--ranks N] [--batch N] [--threads N] [--seconds S]
//
// Each rank is a process with `--threads` threads and an equal part of the
// batch, like a worker of a job with `devices: N`. Prints one JSON object,
// {"ms": median}, of rank 0. The models are those of peers/bench_models.py.
#include <google/protobuf/text_format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/philox.h"
#include "engine/base/sha256.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/train/training_run.h"

namespace gpupool::engine {
namespace {

constexpr int kRows = 512;
constexpr int kFeatures = 784;
constexpr int kWarmUp = 3;

struct Options {
  std::string model;
  int ranks = 2;
  uint32_t batch = 64;
  int threads = 1;
  double seconds = 1.5;
};

constexpr char kMlp[] = R"(
  model {
    input_shape: 784
    layers { dense { units: 128 } } layers { relu {} }
    layers { dense { units: 10 } }
  }
  training { adam {} })";
constexpr char kCnn[] = R"(
  model {
    input_shape: 1 input_shape: 28 input_shape: 28
    layers { conv2d { filters: 32 kernel: 3 padding: 1 } }
    layers { batch_norm {} } layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { conv2d { filters: 64 kernel: 3 padding: 1 } }
    layers { batch_norm {} } layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { flatten {} } layers { dense { units: 10 } }
  }
  training { sgd { learning_rate: 0.001 momentum: 0.9 } })";

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

v1::Dataset WriteData(const std::string& folder) {
  Philox random(7);
  std::string text;
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kFeatures; ++i) {
      absl::StrAppend(&text, random.NextFloat() - 0.5f, ",");
    }
    absl::StrAppend(&text, random.NextBelow(10), "\n");
  }
  v1::Dataset dataset;
  v1::DatasetFile* file = dataset.add_files();
  file->set_role(v1::DatasetFile::TABLE);
  file->set_file_name("table.csv");
  file->set_total_bytes(text.size());
  file->set_sha256(Sha256Hex(text));
  std::ofstream(folder + "/" + file->sha256(), std::ios::binary) << text;
  return dataset;
}

TrainingRequest Request(const Options& options, int rank,
                        const std::string& folder, const v1::Dataset& data) {
  TrainingRequest request{.job_id = 1, .attempt = 1};
  if (!google::protobuf::TextFormat::ParseFromString(
          options.model == "cnn" ? kCnn : kMlp, &request.spec)) {
    std::abort();
  }
  request.spec.set_devices(static_cast<uint32_t>(options.ranks));
  v1::TrainingSpec& training = *request.spec.mutable_training();
  training.mutable_cross_entropy();
  training.set_batch_size(options.batch);
  training.set_steps(1u << 30);
  request.dataset = data;
  if (options.ranks > 1) {
    request.group = RankGroup{
        .rank = rank, .size = options.ranks, .name = "bench", .folder = folder};
  }
  return request;
}

void RunRank(const Options& options, int rank, const std::string& folder,
             const v1::Dataset& data) {
  using Clock = std::chrono::steady_clock;
  HostPageSource source;
  CachingAllocator allocator("cpu:0", uint64_t{1} << 30, &source);
  CpuBackend backend(options.threads);
  const auto run = Value(TrainingRun::Impl::Create(
      {&backend, &allocator, folder}, Request(options, rank, folder, data)));
  std::vector<double> times;
  const auto begin = Clock::now();
  while (!run->stop_agreed()) {
    const auto start = Clock::now();
    const std::chrono::duration<double> all = start - begin;
    if (rank == 0 && all.count() > options.seconds && times.size() >= 5) {
      run->RequestStop();
    }
    absl::Status status = run->StartStep();
    if (status.ok()) status = run->FinishStep();
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    const std::chrono::duration<double> step = Clock::now() - start;
    if (run->step() > kWarmUp) times.push_back(step.count());
  }
  if (rank != 0) return;
  std::sort(times.begin(), times.end());
  const nlohmann::json result = {{"ms", 1e3 * times[times.size() / 2]}};
  std::printf("%s\n", result.dump().c_str());
}

int Main(const Options& options) {
  std::string folder =
      (std::filesystem::temp_directory_path() / "rank_speed.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const v1::Dataset data = WriteData(folder);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      RunRank(options, rank, folder, data);
      std::fflush(stdout);
      _exit(0);
    }
  }
  bool fine = true;
  for (int rank = 0; rank < options.ranks; ++rank) {
    int status = 0;
    fine = wait(&status) > 0 && status == 0 && fine;
  }
  std::filesystem::remove_all(folder);
  return fine ? 0 : 1;
}

}  // namespace
}  // namespace gpupool::engine

int main(int argc, char** argv) {
  gpupool::engine::Options options;
  CLI::App app("Times one training step on several CPU devices.");
  app.add_option("model", options.model)
      ->required()
      ->check(CLI::IsMember({"mlp", "cnn"}));
  app.add_option("--ranks", options.ranks)->check(CLI::Range(1, 64));
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 512));
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
  app.add_option("--seconds", options.seconds)->check(CLI::Range(0.0, 1e3));
  CLI11_PARSE(app, argc, argv);
  return gpupool::engine::Main(options);
}
