#include "client/yaml/yaml_message.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/job.pb.h"
#include "inference/grpc_service.pb.h"
#include "tests/test_paths.h"

namespace gpupool::client {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename Message>
Message Read(const std::string& text) {
  Message message;
  const absl::Status status = YamlToMessage(text, "job.yaml", message);
  EXPECT_TRUE(status.ok()) << status.message();
  return message;
}

template <typename Message>
std::string ErrorOf(const std::string& text) {
  Message message;
  const absl::Status status = YamlToMessage(text, "job.yaml", message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(YamlToMessageTest, ReadsNestedMessages) {
  const auto job = Read<v1::JobSpec>(R"(
name: digits
priority: -3
data:
  dataset: digits
  held_out: {every: 5}
)");
  EXPECT_EQ(job.name(), "digits");
  EXPECT_EQ(job.priority(), -3);
  EXPECT_EQ(job.data().held_out().every(), 5u);
}

TEST(YamlToMessageTest, AMessageThatIsAListMayBeWrittenAsOne) {
  const auto job = Read<v1::JobSpec>(R"(
array:
  indices: 0-2
  values:
    training.seed: ${index}
    training.adam.learning_rate: [0.1, 2e-1, 0.30]
    name: {values: [a, b, c]}
)");
  const auto& values = job.array().values();
  EXPECT_THAT(values.at("training.seed").values(), ElementsAre("${index}"));
  EXPECT_THAT(values.at("training.adam.learning_rate").values(),
              ElementsAre("0.1", "2e-1", "0.30"));
  EXPECT_THAT(values.at("name").values(), ElementsAre("a", "b", "c"));
}

TEST(YamlToMessageTest, ABareWordIsAnEmptyMessage) {
  const auto model = Read<v1::ModelSpec>(R"(
input_shape: [4]
layers:
  - relu
  - flatten:
  - dense: {units: 3}
  - {name: last, softmax: {}}
)");
  ASSERT_EQ(model.layers_size(), 4);
  EXPECT_TRUE(model.layers(0).has_relu());
  EXPECT_TRUE(model.layers(1).has_flatten());
  EXPECT_EQ(model.layers(2).dense().units(), 3);
  EXPECT_EQ(model.layers(3).name(), "last");
  EXPECT_TRUE(
      Read<v1::DataSpec>("scaling: standardize").scaling().has_standardize());
}

TEST(YamlToMessageTest, AOneofMayBeSetByItsOwnName) {
  EXPECT_TRUE(Read<v1::TrainingSpec>("optimizer: adam").has_adam());
  EXPECT_EQ(Read<v1::TrainingSpec>("optimizer: {sgd: {momentum: 0.9}}")
                .sgd()
                .momentum(),
            0.9);
  EXPECT_EQ(Read<v1::TrainingSpec>("length: {epochs: 4}").epochs(), 4u);
  EXPECT_EQ(Read<v1::TrainingSpec>("adamw: {beta1: 0.5}").adamw().beta1(), 0.5);
}

TEST(YamlToMessageTest, OneValueStandsForASequence) {
  const auto conv = Read<v1::Conv2d>("{kernel: 3, padding: [1, 2]}");
  EXPECT_THAT(conv.kernel(), ElementsAre(3));
  EXPECT_THAT(conv.padding(), ElementsAre(1, 2));
}

TEST(YamlToMessageTest, ReadsMapsTimesAndDurations) {
  const auto request = Read<inference::ModelInferRequest>(
      "parameters: {priority: {uint64_param: 3}}");
  EXPECT_EQ(request.parameters().at("priority").uint64_param(), 3u);
  const auto info =
      Read<v1::ServerInfo>("start_time: '2026-01-31T12:00:00Z'\nuptime: 1.5s");
  EXPECT_EQ(info.start_time().seconds(), 1769860800);
  EXPECT_EQ(info.uptime().nanos(), 500'000'000);
  EXPECT_THAT(ErrorOf<v1::ServerInfo>("uptime: soon"),
              HasSubstr("'soon' is not a duration such as 1.5s"));
}

TEST(YamlToMessageTest, NamesLineColumnAndNearestField) {
  EXPECT_THAT(ErrorOf<v1::JobSpec>("name: x\nmodel:\n  layers:\n"
                                   "    - conv2d: {filtres: 3}\n"),
              StartsWith("job.yaml:4:16: unknown field 'filtres' in Conv2d; "
                         "did you mean 'filters'? (known: filters, kernel,"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("layers: [rleu]"),
              StartsWith("job.yaml:1:10: unknown Layer 'rleu'; did you mean "
                         "'relu'?"));
  EXPECT_THAT(ErrorOf<v1::TrainingSpec>("optimizer: adm"),
              StartsWith("job.yaml:1:12: unknown optimizer 'adm'; did you "
                         "mean 'adam'?"));
}

TEST(YamlToMessageTest, RefusesAWordOfAnotherKind) {
  EXPECT_THAT(ErrorOf<v1::TrainingSpec>("optimizer: cross_entropy"),
              HasSubstr("unknown optimizer 'cross_entropy'"));
  EXPECT_THAT(
      ErrorOf<v1::ModelSpec>("layers: [{dense: 10}]"),
      HasSubstr(
          "'10' is not a mapping of Dense (known: units, bias, tied_to)"));
}

TEST(YamlToMessageTest, RefusesTwoMembersOfAOneof) {
  EXPECT_EQ(ErrorOf<v1::TrainingSpec>("adam: {}\nsgd: {}\n"),
            "job.yaml:2:1: 'sgd' and 'adam' are both given; choose one "
            "optimizer");
  EXPECT_THAT(ErrorOf<v1::TrainingSpec>("epochs: 3\nsteps: 4\n"),
              HasSubstr("choose one length"));
  EXPECT_THAT(ErrorOf<v1::TrainingSpec>("optimizer: {adam: {}, sgd: {}}"),
              HasSubstr("needs exactly one of sgd, adam, adamw"));
}

TEST(YamlToMessageTest, ALayerWithoutSettingsSaysSo) {
  EXPECT_EQ(ErrorOf<v1::ModelSpec>("layers: [{relu: {x: 1}}]\n"),
            "job.yaml:1:18: unknown field 'x' in Relu (it takes none)");
}

TEST(YamlToMessageTest, RefusesAnEmptyItem) {
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("layers:\n  - relu\n  -\n"),
              HasSubstr("'layers' has an empty item"));
}

TEST(YamlToMessageTest, AFileOfAnotherKindIsNotRepeatedInTheMessage) {
  const std::string table(1 << 16, '7');
  EXPECT_LT(ErrorOf<v1::JobSpec>(table).size(), 200u);
}

TEST(YamlToMessageTest, RefusesAKeyGivenTwice) {
  EXPECT_EQ(ErrorOf<v1::JobSpec>("name: a\nname: b\n"),
            "job.yaml:2:1: 'name' is given twice");
}

TEST(YamlToMessageTest, RefusesValuesOfTheWrongKind) {
  EXPECT_EQ(ErrorOf<v1::TrainingSpec>("batch_size: many"),
            "job.yaml:1:13: 'many' is not a whole number of 0 or more, which "
            "batch_size needs");
  EXPECT_THAT(ErrorOf<v1::TrainingSpec>("batch_size: [1]"),
              HasSubstr("not a sequence"));
  EXPECT_THAT(ErrorOf<v1::TrainingSpec>("batch_size:"), HasSubstr("no value"));
  EXPECT_THAT(ErrorOf<v1::JobSpec>("data: [1]"),
              HasSubstr("DataSpec needs a mapping, not a sequence"));
}

TEST(YamlToMessageTest, RefusesBrokenYamlWithItsPlace) {
  EXPECT_THAT(ErrorOf<v1::JobSpec>("name: [a\nb: c"),
              StartsWith("job.yaml:2:"));
  EXPECT_THAT(ErrorOf<v1::JobSpec>("a: b: c"), StartsWith("job.yaml:1:"));
  EXPECT_THAT(ErrorOf<v1::JobSpec>("name: a\ndevice: cuda:"),
              AllOf(StartsWith("job.yaml:2:"), HasSubstr("cuda:0, needs no")));
  EXPECT_EQ(Read<v1::JobSpec>("device: cuda:1").device(), "cuda:1");
  EXPECT_TRUE(Read<v1::JobSpec>("exclusive: true").exclusive());
}

TEST(YamlToMessageTest, RefusesEmptyAndSeveralDocuments) {
  EXPECT_THAT(ErrorOf<v1::JobSpec>(""), HasSubstr("the file is empty"));
  EXPECT_THAT(ErrorOf<v1::JobSpec>("# nothing\n"),
              HasSubstr("the file is empty"));
  EXPECT_THAT(ErrorOf<v1::JobSpec>("name: a\n---\nname: b\n"),
              HasSubstr("a second document"));
}

TEST(YamlToMessageTest, EndsAtADocumentThatHoldsItself) {
  const std::string error =
      ErrorOf<v1::JobSpec>("data: &a {held_out: {fraction: *a}}");
  EXPECT_THAT(error, StartsWith("job.yaml:1:"));
}

TEST(YamlFileToMessageTest, SaysWhatIsWrongWithTheFile) {
  v1::JobSpec job;
  EXPECT_EQ(YamlFileToMessage("/does/not/exist.yaml", job).code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(YamlFileToMessage("/tmp", job).message(),
              HasSubstr("is a folder"));
}

v1::JobSpec FullJob() {
  return Read<v1::JobSpec>(R"(
name: "007"
tenant: "yes"
model:
  input_shape: [1, 8, 8]
  layers:
    - conv2d: {filters: 3, kernel: [3, 5]}
    - relu
    - {name: "two words", dense: {units: 10, bias: false}}
data:
  dataset: "a: b # c"
  scaling: {multiply: 0.0625}
training: {loss: cross_entropy, adam: {learning_rate: 1e-4}, epochs: 3}
publish: {on_success: true}
)");
}

TEST(MessageToYamlTest, ReadsBackToTheSameMessage) {
  const v1::JobSpec job = FullJob();
  const std::string text = MessageToYaml(job);
  EXPECT_TRUE(MessageDifferencer::Equals(Read<v1::JobSpec>(text), job)) << text;
  EXPECT_THAT(text, HasSubstr("name: \"007\"\n"));
  EXPECT_THAT(text, HasSubstr("relu: {}"));
  EXPECT_THAT(text, HasSubstr("kernel: [3, 5]"));
  EXPECT_THAT(text, EndsWith("\n"));
}

TEST(MessageToYamlTest, WritesTimesAsText) {
  const auto info =
      Read<v1::ServerInfo>("start_time: '2026-01-31T12:00:00Z'\nuptime: 1.5s");
  const std::string text = MessageToYaml(info);
  EXPECT_THAT(text, HasSubstr("2026-01-31T12:00:00Z"));
  EXPECT_TRUE(MessageDifferencer::Equals(Read<v1::ServerInfo>(text), info))
      << text;
}

class ExampleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExampleTest, IsAValidJobFile) {
  v1::JobSpec job;
  const absl::Status status =
      YamlFileToMessage(SourcePath("examples/") + GetParam(), job);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(job.name().empty());
  EXPECT_EQ(job.data().dataset(), "digits");
  EXPECT_NE(job.training().loss_case(), v1::TrainingSpec::LOSS_NOT_SET);
  EXPECT_NE(job.training().optimizer_case(),
            v1::TrainingSpec::OPTIMIZER_NOT_SET);
  EXPECT_NE(job.training().length_case(), v1::TrainingSpec::LENGTH_NOT_SET);
  for (const v1::Layer& layer : job.model().layers()) {
    EXPECT_NE(layer.kind_case(), v1::Layer::KIND_NOT_SET);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExampleTest,
                         ::testing::Values("best_of_many.yaml", "digits.yaml",
                                           "half_precision.yaml", "mlp.yaml",
                                           "named.yaml", "residual.yaml",
                                           "vit_tiny.yaml"));

TEST(YamlToMessageTest, AModelMayGoByAName) {
  const auto bare = Read<v1::ModelSpec>("named: resnet18");
  EXPECT_TRUE(bare.named().has_resnet18());
  const auto given = Read<v1::ModelSpec>(
      "named: {resnet50: {classes: 3, small_stem: true}}\n"
      "input_shape: [3, 64, 64]");
  EXPECT_EQ(given.named().resnet50().classes(), 3);
  EXPECT_TRUE(given.named().resnet50().small_stem());
  EXPECT_EQ(given.input_shape_size(), 3);
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("named: resnet19"), HasSubstr("resnet18"));
  const auto spec = Read<v1::ModelSpec>(
      "layers: [{dense: {units: 4}, initial_weight: kaiming_normal}, "
      "{relu: {}, input: input}]");
  EXPECT_EQ(spec.layers(0).initial_weight(), v1::Layer::KAIMING_NORMAL);
  EXPECT_EQ(spec.layers(1).input(), "input");
}

TEST(YamlToMessageTest, LayersOfTransformersMayBeWords) {
  const auto spec = Read<v1::ModelSpec>(
      "layers: [{embedding: {entries: 9, width: 6}, initial_deviation: 0.02}, "
      "class_token, positions, {attention: {heads: 2, causal: true}}, "
      "pick_token, {dense: {units: 2}, initial_weight: normal}]");
  EXPECT_EQ(spec.layers(0).embedding().entries(), 9);
  EXPECT_EQ(spec.layers(0).initial_deviation(), 0.02);
  EXPECT_TRUE(spec.layers(1).has_class_token());
  EXPECT_TRUE(spec.layers(2).has_positions());
  EXPECT_TRUE(spec.layers(3).attention().causal());
  EXPECT_TRUE(spec.layers(4).has_pick_token());
  EXPECT_EQ(spec.layers(5).initial_weight(), v1::Layer::NORMAL);
  EXPECT_FALSE(spec.layers(5).has_initial_deviation());
  const auto named =
      Read<v1::ModelSpec>("named: {gpt_tiny: {vocabulary: 100, context: 8}}");
  EXPECT_EQ(named.named().gpt_tiny().vocabulary(), 100);
  EXPECT_TRUE(Read<v1::ModelSpec>("named: vit_tiny").named().has_vit_tiny());
}

TEST(YamlToMessageTest, AModelFileIsNamedByItsPath) {
  v1::ModelSpec spec;
  ASSERT_TRUE(YamlToMessage("onnx: nets/m.onnx", "job.yaml", spec).ok());
  EXPECT_EQ(spec.onnx().file(), "nets/m.onnx");
  ASSERT_TRUE(YamlToMessage("weights: w.safetensors", "job.yaml", spec).ok());
  EXPECT_EQ(spec.weights().file(), "w.safetensors");
  spec.Clear();
  const absl::Status status = YamlToMessage(
      "onnx: {file: m.onnx, dimensions: {sequence: 8}}", "job.yaml", spec);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(spec.onnx().file(), "m.onnx");
  EXPECT_EQ(spec.onnx().dimensions().at("sequence"), 8);
}

}  // namespace
}  // namespace gpupool::client
