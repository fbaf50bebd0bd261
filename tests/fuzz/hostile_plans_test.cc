// A well-formed file whose sizes or types no kernel expects must end in a plan,
// an answer or a clear refusal, never in the end of the process. Each model is
// planned, trained in a plan, loaded and run in a child process of its own with
// a limited address space, through the same Session that workers use.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/session.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/scratch_folder.h"
#include "tests/fuzz/sanitized.h"

namespace gpupool::engine {
namespace {

using onnx_import::ModelOfGraph;

constexpr uint64_t kDeviceBytes = uint64_t{64} << 20;
constexpr uint64_t kAddressSpace = uint64_t{4} << 30;
constexpr unsigned kPlanHungSeconds = 120;

struct HostileModel {
  std::string name;
  std::string refusal;  // text that the answer must contain; empty: any answer
  std::string (*graph)();
  bool numbers = false;  // training compares numbers instead of classes
};

// A graph from x [N, 4] to y with a weight w [1], which must be used.
std::string Graph(const std::string& nodes, const std::string& output) {
  return absl::StrCat("(float[N, 4] x) => (float[", output,
                      "] y) <float[1] w = {1}> {", nodes, "}");
}

// h is a number that depends on x and w.
constexpr char kNumber[] =
    "v = Mul(x, w) g = ReduceSum<keepdims=0>(v) "
    "o = Constant<value_ints=[1]>() h = Reshape(g, o) ";

// A constant whose elements fill no memory, folded into one number.
std::string FoldedConstant() {
  return Graph(
      "s = Constant<value_ints=[1099511627776]>() f = ConstantOfShape(s) "
      "r = ReduceSum<keepdims=0>(f) v = Mul(x, w) y = Add(v, r)",
      "N, 4");
}

// 2^9 values of 2^51 bytes, whose sum is near that of all 64 bits.
std::string SumOfSizes() {
  std::string nodes = absl::StrCat(
      kNumber,
      "d = Cast<to=11>(h) s = Constant<value_ints=[281474976710656]>() "
      "z = Constant<value_int=0>() a0 = Expand(d, s) ");
  for (int i = 1; i <= 600; ++i) {
    absl::StrAppend(&nodes, "a", i, " = CumSum(a", i - 1, ", z) ");
  }
  return Graph(absl::StrCat(nodes,
                            "e = ReduceSum<keepdims=0>(a600) "
                            "q = Cast<to=1>(e) y = Add(v, q)"),
               "N, 4");
}

// More matrices than the host has memory for a number of each.
std::string ManyMatrices() {
  return Graph(absl::StrCat(kNumber,
                            "s = Constant<value_ints=[68719476736, 1, 1]>() "
                            "e = Expand(h, s) c = Add(e, h) m = MatMul(e, c) "
                            "r = ReduceSum<keepdims=0>(m) y = Add(v, r)"),
               "N, 4");
}

constexpr char kNothing[] =
    "v = Mul(x, w) zero = Constant<value_ints=[0]>() "
    "one = Constant<value_ints=[1]>() e = Slice(v, zero, zero, one) ";

// A layer norm over rows without numbers.
std::string EmptyNorm() {
  return Graph(
      absl::StrCat(kNothing,
                   "m = ReduceMean<axes=[1]>(e) d = Sub(e, m) q = Mul(d, d) "
                   "p = ReduceMean<axes=[1]>(q) "
                   "eps = Constant<value_float=0.001>() b = Add(p, eps) "
                   "r = Sqrt(b) n = Div(d, r) "
                   "t = ReduceSum(n, one) y = Add(v, t)"),
      "N, 4");
}

// Attention, as exporters write it, without queries and keys.
std::string EmptyAttention() {
  return Graph(
      absl::StrCat(kNothing,
                   "k = Constant<value_ints=[1, 0, 4]>() "
                   "none = ConstantOfShape(k) g = ReduceSum<keepdims=0>(v) "
                   "i = Add(none, g) j = Transpose<perm=[0, 2, 1]>(i) "
                   "s = MatMul(i, j) p = Softmax(s) u = MatMul(p, i) "
                   "t = ReduceSum<keepdims=0>(u) y = Add(v, t)"),
      "N, 4");
}

// Weights of two bytes where four are read.
std::string ConvolutionOfTwoTypes() {
  return Graph(
      "v = Mul(x, w) s = Constant<value_ints=[-1, 1, 2, 2]>() "
      "i = Reshape(v, s) k = Constant<value_ints=[1, 1, 1, 1]>() "
      "f = ConstantOfShape(k) c = Cast<to=10>(f) y = Conv(i, c)",
      "N, 1, 2, 2");
}

std::string ProductOfTwoTypes() {
  return Graph(
      "v = Mul(x, w) k = Constant<value_ints=[4, 4]>() f = ConstantOfShape(k) "
      "c = Cast<to=10>(f) y = Gemm(v, c)",
      "N, 4");
}

std::string EmptyClasses() {
  return Graph(
      "v = Mul(x, w) zero = Constant<value_ints=[0]>() "
      "one = Constant<value_ints=[1]>() k = Constant<value_ints=[-1, 4, 1]>() "
      "r = Reshape(v, k) s = Constant<value_ints=[1, 4, 3]>() "
      "e = Expand(r, s) y = Slice(e, zero, zero, one)",
      "N, 0, 3");
}

std::string EmptyNumbers() {
  return Graph(absl::StrCat(kNothing, "y = Identity(e)"), "N, 0");
}

std::string EmptyBatch() {
  return Graph(
      "v = Mul(x, w) zero = Constant<value_ints=[0]>() "
      "y = Slice(v, zero, zero, zero)",
      "0, 4");
}

// One row of an example for each of 2^30 labels.
std::string ManyLabels() {
  return Graph(
      "v = Mul(x, w) k = Constant<value_ints=[-1, 1, 4]>() i = Reshape(v, k) "
      "s = Constant<value_ints=[1, 1073741824, 4]>() y = Expand(i, s)",
      "N, 1073741824, 4");
}

std::vector<HostileModel> AllPlans() {
  return {
      {"FoldedConstant", "", FoldedConstant},
      {"SumOfSizes", "bytes, which no device has", SumOfSizes},
      {"ManyMatrices", "", ManyMatrices},
      {"EmptyNorm", "", EmptyNorm},
      {"EmptyAttention", "", EmptyAttention},
      {"ConvolutionOfTwoTypes", "needs operands of one type",
       ConvolutionOfTwoTypes},
      {"ProductOfTwoTypes", "needs operands of one type", ProductOfTwoTypes},
      {"EmptyClasses", "needs an output with numbers", EmptyClasses},
      {"EmptyNumbers", "needs an output with numbers", EmptyNumbers, true},
      {"EmptyBatch", "", EmptyBatch, true},
      {"ManyLabels", "rows to evaluate", ManyLabels},
  };
}

v1::JobSpec JobOf(const v1::ModelSpec& model, bool numbers) {
  v1::JobSpec job;
  job.set_name("hostile");
  *job.mutable_model() = model;
  job.mutable_data()->set_dataset("rows");
  job.mutable_data()->mutable_held_out()->set_every(5);
  v1::TrainingSpec& training = *job.mutable_training();
  if (numbers) {
    training.mutable_l1();
  } else {
    training.mutable_cross_entropy();
  }
  training.mutable_sgd()->set_learning_rate(0.1);
  training.set_batch_size(1);
  training.set_steps(10);
  return job;
}

// A dataset that is not there yet, so that nothing is known of its labels.
v1::Dataset Rows() {
  v1::Dataset dataset;
  dataset.set_rows(100);
  dataset.set_classes(1);
  return dataset;
}

// Collects the answers, in order.
class Answers {
 public:
  void Add(const char* what, const absl::Status& status) {
    absl::StrAppend(&text_, what, ": ", status.ToString(), "\n");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::unique_ptr<Session> Open(const std::string& device,
                              const std::string& blobs) {
  auto session = Session::Create({.device = *ParseDevice(device),
                                  .memory_limit_bytes = kDeviceBytes,
                                  .threads = 1,
                                  .blob_dir = blobs});
  if (!session.ok()) _exit(101);
  return *std::move(session);
}

absl::Status LoadAndRun(Session& session, const std::string& manifest) {
  auto model = session.LoadModel({.version_id = 1,
                                  .name = "hostile/1",
                                  .manifest_sha256 = manifest,
                                  .max_batch_size = 1});
  if (!model.ok()) return model.status();
  std::vector<std::vector<std::byte>> outputs;
  std::vector<absl::Span<std::byte>> to;
  for (const v1::TensorSpec& spec : (*model)->outputs()) {
    size_t elements = 1;
    for (const int64_t dimension : spec.shape()) {
      if (dimension >= 0) elements *= static_cast<size_t>(dimension);
    }
    outputs.emplace_back(elements * sizeof(float));
  }
  for (auto& output : outputs) to.push_back(absl::MakeSpan(output));
  const std::vector<std::byte> input(4 * sizeof(float));
  const absl::Span<const std::byte> from = input;
  return (*model)->Infer(
      {.rows = 1, .inputs = absl::MakeConstSpan(&from, 1), .outputs = to},
      nullptr);
}

std::string RunAll(const HostileModel& hostile, const std::string& blobs) {
  const std::string bytes = ModelOfGraph(hostile.graph()).SerializeAsString();
  v1::ModelSpec spec;
  spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
  spec.mutable_onnx()->set_bytes(bytes.size());
  std::ofstream(blobs + "/" + spec.onnx().sha256(), std::ios::binary) << bytes;
  Answers answers;
  const auto meta = Open("meta", blobs);
  answers.Add(
      "training",
      meta->PlanTraining(JobOf(spec, hostile.numbers), Rows()).status());
  const auto imported = meta->ImportModel(spec, "", {.max_batch_size = 1});
  answers.Add("import", imported.status());
  if (!imported.ok()) return answers.text();
  const auto cpu = Open("cpu:0", blobs);
  answers.Add("run", LoadAndRun(*cpu, imported->manifest_sha256));
  return answers.text();
}

// Runs the model in the child. Never returns.
void RunAndExit(const HostileModel& hostile, const std::string& blobs,
                int report) {
  alarm(kPlanHungSeconds);
  if (!kSanitized) {
    const rlimit limit{kAddressSpace, kAddressSpace};
    setrlimit(RLIMIT_AS, &limit);
  }
  const std::string text = RunAll(hostile, blobs);
  const bool written = write(report, text.data(), text.size()) >= 0;
  _exit(written ? 0 : 100);
}

class HostilePlansTest : public ::testing::TestWithParam<HostileModel> {};

TEST_P(HostilePlansTest, EndsInAnAnswer) {
  const ScratchFolder folder;
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t child = fork();
  if (child == 0) RunAndExit(GetParam(), folder.path(), report[1]);
  close(report[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(report[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(report[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%s:\n%.1500s", GetParam().name.c_str(), text.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(absl::StrContains(text, GetParam().refusal)) << text;
  EXPECT_FALSE(absl::StrContains(text, "INTERNAL")) << text;
}

INSTANTIATE_TEST_SUITE_P(AllPlans, HostilePlansTest,
                         ::testing::ValuesIn(AllPlans()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gpupool::engine
