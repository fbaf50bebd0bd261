#include "client/cli/mlflow/spec_params.h"

#include <gmock/gmock.h>

#include "client/cli/mlflow/entity_names.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Pair;

TEST(SpecParamsTest, AreTheFieldsThatAreSetWithTheModelLast) {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.set_priority(-2);
  v1::ModelSpec& model = *spec.mutable_model();
  for (const int64_t size : {1, 8, 8}) model.add_input_shape(size);
  model.add_layers()->mutable_flatten();
  model.add_layers()->mutable_dense()->set_units(10);
  v1::TrainingSpec& training = *spec.mutable_training();
  training.mutable_cross_entropy();
  training.mutable_adam()->set_learning_rate(0.125);
  EXPECT_THAT(SpecParams(spec),
              ElementsAre(Pair("name", "digits"), Pair("priority", "-2"),
                          Pair("training.cross_entropy", "{}"),
                          Pair("training.adam.learning_rate", "0.125"),
                          Pair("model.input_shape", "1, 8, 8"),
                          Pair("model.layers.0.flatten", "{}"),
                          Pair("model.layers.1.dense.units", "10")));
}

TEST(SpecParamsTest, ASpecWithoutFieldsHasNone) {
  EXPECT_TRUE(SpecParams(v1::JobSpec()).empty());
}

TEST(SpecParamsTest, LongValuesAreCut) {
  v1::JobSpec spec;
  spec.set_name(std::string(kLongestParamValue + 1, 'x'));
  EXPECT_THAT(SpecParams(spec),
              ElementsAre(Pair("name", ParamValue(spec.name()))));
}

TEST(SpecParamsTest, KeysHaveOnlyCharactersThatMlflowTakes) {
  v1::JobSpec spec;
  (*spec.mutable_array()->mutable_values())["a:b"].add_values("1");
  EXPECT_THAT(SpecParams(spec),
              ElementsAre(Pair("array.values.a_b.values", "1")));
}

TEST(SpecParamsTest, KeysThatBecomeTheSameAreSentOnce) {
  v1::JobSpec spec;
  auto& values = *spec.mutable_array()->mutable_values();
  values["a:b"].add_values("1");
  values["a;b"].add_values("1");
  EXPECT_EQ(SpecParams(spec).size(), 1u);
}

TEST(SpecParamsTest, ALargeModelIsCutAndTheTrainingIsKept) {
  v1::JobSpec spec;
  for (size_t i = 0; i < kMostSpecParams + 5; ++i) {
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  }
  spec.mutable_training()->set_batch_size(32);
  const KeyValues params = SpecParams(spec);
  EXPECT_EQ(params.size(), kMostSpecParams);
  EXPECT_THAT(params, IsSupersetOf({Pair("training.batch_size", "32"),
                                    Pair("model.layers.0.dense.units", "1")}));
}

}  // namespace
}  // namespace gpupool::client
