// How fast is a training step of a 784-128-10 perceptron, batch 64, Adam?
//
// The peer, in turns in the same run, is the five matrix products that such a
// step cannot do without, by oneDNN alone. It is a lower bound of the time and
// not a trainer.
//
//   train_mlp [threads] [rounds]
//
// Prints {"bench","case","ours","peer","ratio","unit"}. The figures are medians
// over the rounds. `train_mlp --profile [threads]` prints the time of each
// node.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/kernel/dnnl_versions.h"
#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/model/model_programs.h"
#include "engine/passes/pipeline.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/weight_view.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

constexpr int kBatch = 64, kInputs = 784, kHidden = 128, kClasses = 10;
constexpr int kStepsPerRound = 50, kBatches = 16;

Graph MlpTrainingGraph() {
  v1::ModelSpec model;
  model.add_input_shape(kInputs);
  model.add_layers()->mutable_dense()->set_units(kHidden);
  model.add_layers()->mutable_relu();
  model.add_layers()->mutable_dense()->set_units(kClasses);
  v1::TrainingSpec training;
  training.mutable_cross_entropy();
  training.mutable_adam();
  training.set_batch_size(kBatch);
  Graph graph = BuildTrainingGraph(model, {}, training)->graph;
  GPUPOOL_CHECK(RunPasses(graph, {}, nullptr).ok());
  return graph;
}

// The engine's own step.
class OurStep {
 public:
  explicit OurStep(int threads)
      : backend_(threads), allocator_("cpu:0", 1 << 30, &source_) {
    const Graph graph = MlpTrainingGraph();
    Program program = *Program::Compile(graph, &backend_);
    weights_ = std::make_unique<WeightStore>(*WeightStore::Create(
        *WeightLayout::Create({&graph}), "bench", &allocator_));
    arena_ = *allocator_.Allocate(program.bytes().arena, {"bench", "arena"});
    executor_ = *Executor::Create(std::move(program),
                                  {.weights = *weights_,
                                   .arena = {arena_.data(), arena_.bytes()},
                                   .holder = "bench",
                                   .allocator = &allocator_});
    Philox random(7);
    const WeightView view = *WeightView::OfNew(*weights_);
    for (const WeightEntry& entry : view.layout().entries()) {
      if (entry.in_optimizer_block()) continue;
      auto* data = reinterpret_cast<float*>(view.bytes_of(entry).data());
      for (int64_t i = 0; i < entry.shape.elements(); ++i) {
        data[i] = (random.NextFloat() - 0.5f) * 0.05f;
      }
    }
    GPUPOOL_CHECK(view.Commit().ok());
    images_.resize(kBatches * kBatch * kInputs);
    for (float& x : images_) x = random.NextFloat();
    labels_.resize(kBatches * kBatch);
    for (int64_t& label : labels_) {
      label = static_cast<int64_t>(random.NextBelow(kClasses));
    }
    GPUPOOL_CHECK(executor_->Load().ok());
  }

  void SetInputs() {
    ++step_;
    const double rate = 1e-3;
    const int64_t batch = step_ % kBatches * kBatch;
    Copy("input", images_.data() + batch * kInputs);
    Copy("labels", labels_.data() + batch);
    Copy("learning_rate", &rate);
    Copy("step", &step_);
  }
  void Run() {
    SetInputs();
    GPUPOOL_CHECK(executor_->Run().ok());
  }
  std::string ProfileTable(int runs) {
    Profile profile(0);
    for (int i = 0; i < runs; ++i) {
      SetInputs();
      GPUPOOL_CHECK(executor_->RunProfiled(&profile).ok());
    }
    return profile.Table(executor_->program().graph());
  }

 private:
  void Copy(const char* name, const void* from) {
    const auto to = executor_->input(name);
    std::memcpy(to.data(), from, to.size());
  }

  CpuBackend backend_;
  HostPageSource source_;
  CachingAllocator allocator_;
  std::unique_ptr<WeightStore> weights_;
  Allocation arena_;
  std::unique_ptr<Executor> executor_;
  std::vector<float> images_;
  std::vector<int64_t> labels_;
  int64_t step_ = 0;
};

// The five products: two forward, two for gradients of weights, one for the
// gradient of the hidden layer.
class BareProducts {
 public:
  BareProducts() {
    Add({.m = kBatch, .n = kHidden, .k = kInputs, .transpose_b = true});
    Add({.m = kBatch, .n = kClasses, .k = kHidden, .transpose_b = true});
    Add({.m = kClasses, .n = kHidden, .k = kBatch, .transpose_a = true});
    Add({.m = kBatch, .n = kHidden, .k = kClasses});
    Add({.m = kHidden, .n = kInputs, .k = kBatch, .transpose_a = true});
  }
  void Run() {
    for (Product& product : products_) {
      GPUPOOL_CHECK(dnnl_primitive_execute(product.primitive.get(),
                                           stream_.get(), 3,
                                           product.arguments) == dnnl_success);
    }
  }

 private:
  // Sizes of y [m, n] = a [m, k] times b [k, n], and how the factors lie in
  // memory.
  struct Sizes {
    int m = 0, n = 0, k = 0;
    bool transpose_a = false;
    bool transpose_b = false;
  };
  struct Product {
    dnnl::matmul primitive;
    dnnl::memory a, b, y;
    dnnl_exec_arg_t arguments[3];
  };

  dnnl::memory Matrix(int rows, int columns, bool transposed) {
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::desc desc({rows, columns}, dnnl::memory::data_type::f32,
                                  transposed ? Tag::ba : Tag::ab);
    dnnl::memory memory(desc, engine_);
    std::memset(memory.get_data_handle(), 0, desc.get_size());
    return memory;
  }
  void Add(const Sizes& sizes) {
    Product p;
    p.a = Matrix(sizes.m, sizes.k, sizes.transpose_a);
    p.b = Matrix(sizes.k, sizes.n, sizes.transpose_b);
    p.y = Matrix(sizes.m, sizes.n, false);
    p.primitive = dnnl::matmul(
        Describe<dnnl::matmul>(engine_, dnnl::primitive_attr(), p.a.get_desc(),
                               p.b.get_desc(), p.y.get_desc()));
    p.arguments[0] = {DNNL_ARG_SRC, p.a.get()};
    p.arguments[1] = {DNNL_ARG_WEIGHTS, p.b.get()};
    p.arguments[2] = {DNNL_ARG_DST, p.y.get()};
    products_.push_back(std::move(p));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Product> products_;
};

template <typename Work>
double MicrosecondsPerStep(Work& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kStepsPerRound; ++i) work.Run();
  const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
  return taken.count() / kStepsPerRound;
}

double Median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

void Compare(int threads, int rounds) {
  OurStep ours(threads);
  BareProducts peer;  // uses the threads that the back end has set
  MicrosecondsPerStep(ours);
  MicrosecondsPerStep(peer);
  std::vector<double> our_times, peer_times;
  for (int round = 0; round < rounds; ++round) {
    our_times.push_back(MicrosecondsPerStep(ours));
    CpuBackend(threads).BeginRun();
    peer_times.push_back(MicrosecondsPerStep(peer));
  }
  const double our_rate = 1e6 / Median(our_times);
  const double peer_rate = 1e6 / Median(peer_times);
  std::printf(
      "{\"bench\":\"train-mlp\",\"case\":\"784-128-10 batch 64 adam, %d "
      "threads, peer: its matrix products alone\",\"ours\":%.2f,\"peer\":%.2f,"
      "\"ratio\":%.3f,\"unit\":\"steps/s\"}\n",
      threads, our_rate, peer_rate, our_rate / peer_rate);
}

}  // namespace
}  // namespace gpupool::engine

int main(int count, char** arguments) {
  const std::string first = count > 1 ? arguments[1] : "2";
  if (first == "--profile") {
    const int threads = count > 2 ? std::max(1, std::atoi(arguments[2])) : 2;
    std::fputs(gpupool::engine::OurStep(threads).ProfileTable(500).c_str(),
               stdout);
    return 0;
  }
  const int threads = std::max(1, std::atoi(first.c_str()));
  const int rounds = count > 2 ? std::max(1, std::atoi(arguments[2])) : 41;
  gpupool::engine::Compare(threads, rounds);
  return 0;
}
