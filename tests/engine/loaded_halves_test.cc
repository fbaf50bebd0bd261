// Serves ONNX files in float16 and bfloat16, and compares their answers with
// those of the same model in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/backends/reference/interpreter.h"
#include "engine/base/philox.h"
#include "engine/base/sha256.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/onnx_model_source.h"
#include "engine/model/model_programs.h"
#include "engine/tensor/convert.h"
#include "tests/engine/import/onnx/half_model.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

using onnx::TensorProto;

constexpr int64_t kHalfRows = 3;

struct HalfCase {
  std::string name;
  std::string graph;  // the part after "agraph"
  // FLOAT initializers, by name. "var" gets positive numbers and "infinity" the
  // negative one.
  std::map<std::string, std::vector<int64_t>> weights;
  int opset = 17;
};

void PrintTo(const HalfCase& one, std::ostream* out) { *out << one.name; }

constexpr char kBlock[] = R"((float[N, 4, 8] x) => (float[N, 4, 8] y)
  <int64[4] heads = {0, 4, 2, 4}, float[1] root = {2}> {
    %s
    q0 = MatMul(n, wq)  q1 = Reshape(q0, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (q1)
    k0 = MatMul(n, wk)  k1 = Reshape(k0, heads)
    k = Transpose <perm = [0, 2, 3, 1]> (k1)
    v0 = MatMul(n, wv)  v1 = Reshape(v0, heads)
    v = Transpose <perm = [0, 2, 1, 3]> (v1)
    s0 = MatMul(q, k)   s = Div(s0, root)
    p = Softmax <axis = -1> (s)
    a0 = MatMul(p, v)   a1 = Transpose <perm = [0, 2, 1, 3]> (a0)
    shape = Constant <value_ints = [0, 4, 8]> ()
    a2 = Reshape(a1, shape)
    a = MatMul(a2, wo)  r = Add(x, a)
    h0 = MatMul(r, w1)  h = Add(h0, b1)
    sqrt2 = Constant <value_float = 1.4142135> ()
    half = Constant <value_float = 0.5> ()
    one = Constant <value_float = 1.0> ()
    e0 = Div(h, sqrt2)  e1 = Erf(e0)  e2 = Add(e1, one)
    e3 = Mul(h, e2)     g = Mul(e3, half)
    m = MatMul(g, w2)   y = Add(r, m)
  })";

const char kComposedNorm[] =
    "two = Constant <value_float = 2.0> () "
    "eps = Constant <value_float = 0.00001> () "
    "mean = ReduceMean <axes = [-1]> (x) d = Sub(x, mean) sq = Pow(d, two) "
    "var = ReduceMean <axes = [-1]> (sq) ve = Add(var, eps) sd = Sqrt(ve) "
    "dn = Div(d, sd) gn = Mul(dn, gamma) n = Add(gn, beta)";

std::map<std::string, std::vector<int64_t>> BlockWeights() {
  return {{"wq", {8, 8}},  {"wk", {8, 8}},  {"wv", {8, 8}},
          {"wo", {8, 8}},  {"w1", {8, 16}}, {"b1", {16}},
          {"w2", {16, 8}}, {"gamma", {8}},  {"beta", {8}}};
}

std::string BlockText(const std::string& norm) {
  std::string text = kBlock;
  return text.replace(text.find("%s"), 2, norm);
}

std::vector<HalfCase> Cases() {
  return {
      {"Mlp",
       "(float[N, 8] x) => (float[N, 5] y) { h0 = Gemm <transB = 1> (x, w1, "
       "b1) h = Relu(h0) y = Gemm <transB = 1> (h, w2, b2) }",
       {{"w1", {16, 8}}, {"b1", {16}}, {"w2", {5, 16}}, {"b2", {5}}}},
      {"ConvWithBatchNorm",
       "(float[N, 3, 6, 6] x) => (float[N, 4] y) { c = Conv <pads = [1, 1, 1, "
       "1]> (x, w, b) n = BatchNormalization(c, gamma, beta, mean, var) r = "
       "Relu(n) p = GlobalAveragePool(r) y = Flatten(p) }",
       {{"w", {4, 3, 3, 3}},
        {"b", {4}},
        {"gamma", {4}},
        {"beta", {4}},
        {"mean", {4}},
        {"var", {4}}}},
      {"TransformerWithComposedNorm", BlockText(kComposedNorm), BlockWeights()},
      {"TransformerWithLayerNormalization",
       BlockText("n = LayerNormalization(x, gamma, beta)"), BlockWeights()},
      // Both masks are what exporters write; half of the keys are hidden.
      {"WhereWithInfinity",
       "(float[N, 4, 4] x) => (float[N, 4, 4] y) <bool[4, 4] seen = {1, 0, 0, "
       "0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}> { s = MatMul(x, w) m = "
       "Where(seen, s, infinity) y = Softmax <axis = -1> (m) }",
       {{"w", {4, 4}}, {"infinity", {1}}}},
      {"AddedMaskOfTheLowestHalf",
       "(float[N, 4, 4] x) => (float[N, 4, 4] y) <float[4, 4] mask = {0, "
       "-65504, -65504, -65504, 0, 0, -65504, -65504, 0, 0, 0, -65504, 0, 0, "
       "0, 0}> { s = MatMul(x, w) m = Add(s, mask) y = Softmax <axis = -1> "
       "(m) }",
       {{"w", {4, 4}}}},
      // The sum of squares of numbers near 300 leaves the range of float16.
      {"SumsBeyondTheRange",
       "(float[N, 64] x) => (float[N, 1] y) { k = Constant <value_float = "
       "300.0> () a = Mul(x, k) two = Constant <value_float = 2.0> () p = "
       "Pow(a, two) m = ReduceMean <axes = [-1]> (p) y = Sqrt(m) }",
       {}},
      {"ClipAndResize",
       "(float[N, 2, 4, 4] x) => (float[N, 2, 8, 8] y) <float[4] scales = {1, "
       "1, 2, 2}> { lo = Constant <value_float = -0.5> () hi = Constant "
       "<value_float = 0.5> () c = Clip(x, lo, hi) y = Resize <mode = "
       "\"linear\"> (c, , scales) }",
       {}},
      {"Attention",
       "(float[N, 2, 4, 8] q, float[N, 2, 4, 8] k, float[N, 2, 4, 8] v) => "
       "(float[N, 2, 4, 8] y) { y = Attention <is_causal = 1> (q, k, v) }",
       {},
       23},
  };
}

class LoadedHalvesTest : public SessionFixture {
 protected:
  static onnx::ModelProto Model(const HalfCase& one) {
    onnx::ModelProto model = onnx_import::ModelOfGraph(one.graph);
    model.mutable_opset_import(0)->set_version(one.opset);
    for (const auto& [name, dims] : one.weights) {
      onnx_import::AddWeight(name, dims, 0.5, model);
      auto& last = *model.mutable_graph()->mutable_initializer()->rbegin();
      for (float& x : *last.mutable_float_data()) {
        if (name == "var") x = std::abs(x) + 0.5f;
        if (name == "infinity") x = -std::numeric_limits<float>::infinity();
      }
    }
    return model;
  }

  v1::ModelSpec Store(const onnx::ModelProto& model) const {
    const std::string bytes = model.SerializeAsString();
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + spec.onnx().sha256(), std::ios::binary)
        << bytes;
    return spec;
  }

  // Returns the outputs of the float32 model in double precision.
  reference::NamedNumbers Wanted(const onnx::ModelProto& model,
                                 const reference::NamedNumbers& inputs) {
    auto file = onnx_import::OnnxFile::Parse(model.SerializeAsString(), {});
    EXPECT_TRUE(file.ok()) << file.status();
    const auto source = *onnx_import::MakeOnnxSource({}, *file);
    const auto built = BuildInferenceGraph(*source, false, kHalfRows);
    EXPECT_TRUE(built.ok()) << built.status();
    reference::NamedNumbers state;
    for (const PersistentSpec& spec : built->persistents) {
      std::vector<std::byte> bytes(spec.shape.bytes(spec.dtype));
      EXPECT_TRUE(source->ReadStored(spec.name, absl::MakeSpan(bytes)).ok());
      std::vector<double>& numbers = state[spec.name];
      numbers.resize(static_cast<size_t>(spec.shape.elements()));
      ReadAsDoubles(spec.dtype, bytes.data(), 1, absl::MakeSpan(numbers));
    }
    auto outputs = reference::Run(built->graph, inputs, state);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? *outputs : reference::NamedNumbers();
  }

  // Returns the first output of the served model, whose ports have `dtype`.
  std::vector<double> Served(const v1::ModelSpec& spec, DType dtype,
                             const reference::NamedNumbers& inputs) {
    const auto imported =
        session_->ImportModel(spec, "", {.max_batch_size = kHalfRows});
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return {};
    auto model =
        session_->LoadModel({.version_id = 1,
                             .name = "half/1",
                             .manifest_sha256 = imported->manifest_sha256,
                             .max_batch_size = kHalfRows});
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    std::vector<std::vector<std::byte>> bytes;
    std::vector<absl::Span<const std::byte>> from;
    for (const v1::TensorSpec& port : (*model)->inputs()) {
      const std::vector<double>& numbers = inputs.at(port.name());
      auto& to = bytes.emplace_back(numbers.size() * SizeOf(dtype));
      WriteFromDoubles(dtype, numbers, 1, to.data());
      from.push_back(to);
    }
    const v1::TensorSpec& port = (*model)->outputs()[0];
    std::vector<double> numbers(kHalfRows * RowElements(port));
    std::vector<std::byte> answer(numbers.size() * SizeOf(dtype));
    const absl::Span<std::byte> to = absl::MakeSpan(answer);
    const absl::Status status =
        (*model)->Infer({.rows = kHalfRows,
                         .inputs = from,
                         .outputs = absl::MakeConstSpan(&to, 1)},
                        nullptr);
    EXPECT_TRUE(status.ok()) << status;
    ReadAsDoubles(dtype, answer.data(), 1, absl::MakeSpan(numbers));
    return numbers;
  }

  // Returns numbers of the type for every input.
  static reference::NamedNumbers Inputs(const onnx::ModelProto& model,
                                        DType dtype) {
    reference::NamedNumbers inputs;
    Philox random(11);
    for (const auto& input : model.graph().input()) {
      const auto& shape = input.type().tensor_type().shape();
      size_t count = kHalfRows;
      for (int i = 1; i < shape.dim_size(); ++i) {
        count *= static_cast<size_t>(shape.dim(i).dim_value());
      }
      for (size_t i = 0; i < count; ++i) {
        inputs[input.name()].push_back(
            RoundToDType(dtype, 2.0 * random.NextFloat() - 1.0));
      }
    }
    return inputs;
  }
};

class ServedHalf : public LoadedHalvesTest,
                   public ::testing::WithParamInterface<HalfCase> {
 protected:
  // Expects answers as close as one rounding of the output allows.
  void ExpectExact(int data_type, bool keep_ports) {
    const DType half =
        data_type == TensorProto::FLOAT16 ? DType::kFloat16 : DType::kBFloat16;
    onnx::ModelProto wide = Model(GetParam());
    onnx_import::RoundWeights(data_type, wide);
    const auto inputs = Inputs(wide, half);
    const auto wanted = Wanted(wide, inputs).at("y");
    onnx::ModelProto model = Model(GetParam());
    onnx_import::ToHalf({.data_type = data_type, .keep_ports = keep_ports},
                        model);
    const auto got =
        Served(Store(model), keep_ports ? DType::kFloat32 : half, inputs);
    ASSERT_EQ(got.size(), wanted.size());
    // Constants of the file are rounded, too: 1.4142135 and 0.00001.
    const double epsilon = half == DType::kFloat16 ? 0x1p-10 : 0x1p-7;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], epsilon * (0.25 + std::abs(wanted[i])))
          << "element " << i;
    }
  }
};

TEST_P(ServedHalf, Float16IsRoundedOnlyAtTheEdges) {
  ExpectExact(TensorProto::FLOAT16, false);
}

TEST_P(ServedHalf, Float16WithCastsAtFloat32Ports) {
  ExpectExact(TensorProto::FLOAT16, true);
}

TEST_P(ServedHalf, Bfloat16IsRoundedOnlyAtTheEdges) {
  ExpectExact(TensorProto::BFLOAT16, false);
}

INSTANTIATE_TEST_SUITE_P(Models, ServedHalf, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

constexpr char kDigitsNet[] = R"((float[N, 64] x) => (float[N, 10] y) {
    h0 = Gemm <transB = 1> (x, w1, b1)
    h = Relu(h0)
    y = Gemm <transB = 1> (h, w2, b2)
  })";

class TrainedHalfTest : public LoadedHalvesTest {
 protected:
  static onnx::ModelProto Net(int data_type) {
    onnx::ModelProto model = Model(
        {"Net",
         kDigitsNet,
         {{"w1", {32, 64}}, {"b1", {32}}, {"w2", {10, 32}}, {"b2", {10}}}});
    onnx_import::ToHalf({.data_type = data_type}, model);
    return model;
  }

  // Trains the net for some steps and returns the checkpoint's manifest.
  std::string Train(const v1::ModelSpec& model, v1::Precision precision,
                    double* accuracy) {
    v1::JobSpec job = DigitsJob();
    *job.mutable_model() = model;
    job.mutable_training()->set_precision(precision);
    auto run = Start(job);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return "";
    StepTo(**run, 400);
    const auto evaluation = (*run)->Evaluate();
    EXPECT_TRUE(evaluation.ok()) << evaluation.status();
    *accuracy = evaluation->accuracy();
    auto checkpoint = (*run)->SaveCheckpoint();
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return checkpoint->manifest_sha256();
  }

  std::string Export(const std::string& manifest, ExportFormat format) {
    const auto exported = session_->ExportModel(manifest, format);
    EXPECT_TRUE(exported.ok()) << exported.status();
    return exported.ok() ? ReadFile(blob_dir_ + "/" + exported->sha256) : "";
  }
};

TEST_F(TrainedHalfTest, WeightsAreTrainedInFloat32AndExportedAsTheFileHasThem) {
  for (const int data_type : {TensorProto::FLOAT16, TensorProto::BFLOAT16}) {
    const std::string name = data_type == TensorProto::FLOAT16 ? "F16" : "BF16";
    for (const v1::Precision precision : {v1::HIGHEST, v1::FP16, v1::BF16}) {
      SCOPED_TRACE(name + " with " + v1::Precision_Name(precision));
      double accuracy = 0;
      const std::string manifest =
          Train(Store(Net(data_type)), precision, &accuracy);
      EXPECT_GT(accuracy, 0.9);
      const std::string weights =
          Export(manifest, ExportFormat::kSafetensors).substr(8, 1000);
      EXPECT_THAT(weights, ::testing::HasSubstr("\"w1\":{\"dtype\":\"F32\""));
      onnx::ModelProto exported;
      ASSERT_TRUE(
          exported.ParseFromString(Export(manifest, ExportFormat::kOnnx)));
      EXPECT_EQ(exported.graph().initializer(0).data_type(), data_type);
      // The scaling of the inputs is part of the file and has its type.
      for (const auto& tensor : exported.graph().initializer()) {
        EXPECT_EQ(tensor.data_type(), data_type) << tensor.name();
      }
      const DType half = data_type == TensorProto::FLOAT16 ? DType::kFloat16
                                                           : DType::kBFloat16;
      reference::NamedNumbers inputs;
      for (int i = 0; i < kHalfRows * 64; ++i) inputs["x"].push_back(i % 17);
      const auto answers = Served(Store(exported), half, inputs);
      EXPECT_TRUE(std::isfinite(answers.at(0)));
    }
  }
}

// Steps this small are lost in float16 numbers near 0.5.
TEST_F(TrainedHalfTest, SmallStepsAddUp) {
  v1::JobSpec job = DigitsJob();
  *job.mutable_model() = Store(Net(TensorProto::FLOAT16));
  job.mutable_training()->mutable_sgd()->set_learning_rate(1e-6);
  auto run = Start(job);
  ASSERT_TRUE(run.ok()) << run.status();
  const auto before = (*run)->SaveCheckpoint();
  StepTo(**run, 20);
  const auto after = (*run)->SaveCheckpoint();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_NE(Export(before->manifest_sha256(), ExportFormat::kSafetensors),
            Export(after->manifest_sha256(), ExportFormat::kSafetensors));
}

}  // namespace
}  // namespace gpupool::engine
