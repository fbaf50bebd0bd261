// How long does one run, or one training step, of an ONNX model take?
//
//   model_speed infer MODEL.onnx [--batch N] [--threads N] [--seconds S]
//   model_speed train MODEL.onnx ... [--optimizer sgd|adam]
//       [--precision highest|bf16|fp16]
//   model_speed start MODEL.onnx     import to first result
//   model_speed plan MODEL.onnx      planned arena over its lower bound
//   model_speed gemm                 oneDNN's own rate of float32 products
//   model_speed peak                 the cores' rate of multiply-adds
//
// Prints one JSON object, {"ms": median, "gflops": ...}. With --profile the
// time of each node goes to stderr.
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/peak_rate.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/base/philox.h"
#include "tests/engine/testing/onnx_program.h"

namespace gpupool::engine {
namespace {

using testing::OnnxProgram;

struct Options {
  std::string model;
  int64_t batch = 1;
  int threads = 2;
  double seconds = 1.5;
  std::string optimizer = "sgd";
  std::string precision = "highest";  // of training steps
  bool profile = false;
};

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::shared_ptr<const ModelSource> Open(const Options& options) {
  auto source = testing::OpenOnnx({.model = options.model});
  if (source.ok()) return *std::move(source);
  std::fprintf(stderr, "%s\n", source.status().ToString().c_str());
  std::exit(1);
}

v1::TrainingSpec Training(const Options& options) {
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  if (options.precision == "bf16") training.set_precision(v1::BF16);
  if (options.precision == "fp16") training.set_precision(v1::FP16);
  training.set_batch_size(static_cast<uint32_t>(options.batch));
  if (options.optimizer == "adam") {
    training.mutable_adam();
  } else {
    training.mutable_sgd()->set_learning_rate(1e-3);
    training.mutable_sgd()->set_momentum(0.9);
  }
  return training;
}

// Returns the median time of `run` over `seconds` seconds, with at least five
// runs.
template <typename Function>
double MedianSeconds(Function run, double seconds) {
  for (int i = 0; i < 3; ++i) run();
  std::vector<double> times;
  const double end = Now() + seconds;
  while (Now() < end || times.size() < 5) {
    const double start = Now();
    run();
    times.push_back(Now() - start);
  }
  const auto middle =
      times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Runs a program repeatedly on the same numbers.
class Loop {
 public:
  Loop(std::unique_ptr<OnnxProgram> program, bool training)
      : program_(std::move(program)), training_(training) {
    Philox random(7);
    const Shape& shape = program_->model().inputs[0].shape;
    input_.resize(static_cast<size_t>(shape.elements()));
    for (float& x : input_) x = random.NextFloat() - 0.5f;
    labels_.resize(static_cast<size_t>(shape[0]));
    for (int64_t& label : labels_) {
      label = static_cast<int64_t>(random.NextBelow(10));
    }
  }

  void Run() {
    SetInputs();
    if (!program_->Run().ok()) std::abort();
  }

  void SetInputs() {
    program_->SetInput(program_->model().inputs[0].name,
                       absl::MakeConstSpan(input_));
    if (training_) {
      const int64_t step[] = {++step_};
      program_->SetInput("labels", absl::MakeConstSpan(labels_));
      program_->SetInput("learning_rate", 1e-3);
      program_->SetInput("step", absl::MakeConstSpan(step));
    }
  }

  OnnxProgram& program() { return *program_; }

 private:
  std::unique_ptr<OnnxProgram> program_;
  const bool training_;
  std::vector<float> input_;
  std::vector<int64_t> labels_;
  int64_t step_ = 0;
};

void Report(const nlohmann::json& figures) {
  std::printf("%s\n", figures.dump().c_str());
}

void Measure(const Options& options, bool training) {
  const auto source = Open(options);
  Loop loop(
      training
          ? OnnxProgram::ForTraining(source, Training(options), options.threads)
          : OnnxProgram::ForInference(source, options.batch, options.threads),
      training);
  const double seconds = MedianSeconds([&] { loop.Run(); }, options.seconds);
  const Graph& graph = loop.program().program().graph();
  Report({{"ms", 1e3 * seconds},
          {"gflops", 1e-9 * static_cast<double>(GraphFlops(graph)) / seconds}});
  if (options.profile) {
    const auto set_inputs = [&loop] { loop.SetInputs(); };
    std::fputs(loop.program().ProfileTable(20, set_inputs).c_str(), stderr);
  }
}

void MeasureStart(const Options& options) {
  const double begin = Now();
  Loop loop(
      OnnxProgram::ForInference(Open(options), options.batch, options.threads),
      false);
  loop.Run();
  Report({{"ms", 1e3 * (Now() - begin)}});
  if (options.profile) {
    std::fputs(loop.program().passes().ToString().c_str(), stderr);
  }
}

void ReportPlan(const Options& options) {
  const auto source = Open(options);
  nlohmann::json figures;
  const auto add = [&](const char* name, const OnnxProgram& program) {
    const ProgramBytes& bytes = program.program().bytes();
    figures[name] = static_cast<double>(bytes.arena) /
                    static_cast<double>(bytes.arena_lower_bound);
  };
  add("infer", *OnnxProgram::ForInference(source, options.batch, 1));
  add("train", *OnnxProgram::ForTraining(source, Training(options), 1));
  Report(figures);
}

// Measures a 1024-cubed product with packed weights, the highest rate that
// oneDNN reaches here.
void MeasureGemm(const Options& options) {
  constexpr int64_t kSize = 1024;
  omp_set_num_threads(options.threads);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto desc = [](dnnl::memory::format_tag tag) {
    return dnnl::memory::desc({kSize, kSize}, dnnl::memory::data_type::f32,
                              tag);
  };
  const auto plain = desc(dnnl::memory::format_tag::ab);
  const auto product =
      Describe<dnnl::matmul>(engine, dnnl::primitive_attr(), plain,
                             desc(dnnl::memory::format_tag::any), plain);
  const dnnl::matmul primitive(product);
  dnnl::memory a(plain, engine), y(plain, engine);
  dnnl::memory b(product.weights_desc(), engine);
  const auto run = [&] {
    primitive.execute(
        stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
    stream.wait();
  };
  const double seconds = MedianSeconds(run, options.seconds);
  Report({{"ms", 1e3 * seconds},
          {"gflops", 2e-9 * kSize * kSize * kSize / seconds}});
}

// Measures the limit of the arithmetic units. Takes the best of many short
// runs, because any disturbance lowers the rate.
void MeasurePeak(const Options& options) {
  constexpr int64_t kRounds = 200'000;
  double best = 0;
  float sum = 0;
  for (const double end = Now() + options.seconds; Now() < end;) {
    const double start = Now();
    int64_t operations = 0;
#pragma omp parallel num_threads(options.threads) reduction(+ : operations, sum)
    {
      float result = 0.999f;
      operations += MultiplyAdd(kRounds, &result);
      sum += result;
    }
    best = std::max(best, static_cast<double>(operations) / (Now() - start));
  }
  Report({{"gflops", 1e-9 * best}, {"sum", sum}});
}

int Main(int argc, char** argv) {
  CLI::App app("Times a model.");
  Options options;
  const auto command = [&](const char* name, const char* text,
                           bool needs_model = true) {
    CLI::App* sub = app.add_subcommand(name, text);
    if (needs_model) sub->add_option("model", options.model)->required();
    sub->add_option("--batch", options.batch);
    sub->add_option("--threads", options.threads);
    sub->add_option("--seconds", options.seconds);
    sub->add_option("--optimizer", options.optimizer);
    sub->add_option("--precision", options.precision);
    sub->add_flag("--profile", options.profile);
    return sub;
  };
  CLI::App* infer = command("infer", "one forward run");
  CLI::App* train = command("train", "one training step");
  CLI::App* start = command("start", "import to first result");
  CLI::App* plan = command("plan", "planned arena over its lower bound");
  CLI::App* gemm = command("gemm", "oneDNN's rate of products", false);
  CLI::App* peak = command("peak", "the rate of multiply-adds", false);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  if (infer->parsed()) Measure(options, false);
  if (train->parsed()) Measure(options, true);
  if (start->parsed()) MeasureStart(options);
  if (plan->parsed()) ReportPlan(options);
  if (gemm->parsed()) MeasureGemm(options);
  if (peak->parsed()) MeasurePeak(options);
  return 0;
}

}  // namespace
}  // namespace gpupool::engine

int main(int argc, char** argv) { return gpupool::engine::Main(argc, argv); }
