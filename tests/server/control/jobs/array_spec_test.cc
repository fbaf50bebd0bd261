#include "server/control/jobs/array_spec.h"

#include <gmock/gmock.h>

#include <string>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ParseIndices, TakesNumbersRangesAndSteps) {
  EXPECT_THAT(*ParseIndices("5"), ElementsAre(5));
  EXPECT_THAT(*ParseIndices("0-3"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*ParseIndices("0-9:4"), ElementsAre(0, 4, 8));
  EXPECT_THAT(*ParseIndices("1,3,7-9"), ElementsAre(1, 3, 7, 8, 9));
  EXPECT_THAT(*ParseIndices("999999"), ElementsAre(999999));
}

TEST(ParseIndices, NamesThePartThatIsWrong) {
  for (const char* text :
       {"", "a", "-1", "3-1", "1,1", "2,1", "0-9:0", "0-9:", "1:2", "1--2",
        "1-2-3", "0-9:2:2", "1000000", "1,,2", " 1", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(ParseIndices(text).status()),
                HasSubstr("each number once and in rising order"))
        << text;
  }
}

TEST(ParseIndices, IsBounded) {
  EXPECT_THAT(*ParseIndices("0-999"), SizeIs(kMaxArrayTasks));
  EXPECT_THAT(ErrorOf(ParseIndices("0-1000").status()),
              HasSubstr("more than 1000 tasks"));
  EXPECT_THAT(ErrorOf(ParseIndices("0-999999").status()),
              HasSubstr("more than 1000 tasks"));
}

class TasksOfTest : public ::testing::Test {
 protected:
  TasksOfTest() {
    spec_.set_name("tune-${index}");
    spec_.set_tenant("team-${index}");
    spec_.mutable_data()->set_dataset("part${index}");
    spec_.mutable_training()->mutable_adam()->set_learning_rate(0.5);
    spec_.mutable_model()->add_layers()->set_name("a${index}");
    spec_.mutable_array()->set_indices("3,5");
  }
  void Set(const std::string& field, std::initializer_list<const char*> texts) {
    v1::TaskValues& values = (*spec_.mutable_array()->mutable_values())[field];
    for (const char* text : texts) values.add_values(text);
  }
  std::string Error() { return ErrorOf(TasksOf(spec_).status()); }
  v1::JobSpec spec_;
};

TEST_F(TasksOfTest, TheIndexIsInEveryStringButThoseOfTheWhole) {
  const auto tasks = TasksOf(spec_);
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  ASSERT_THAT(*tasks, SizeIs(2));
  const v1::JobSpec& second = (*tasks)[1].spec;
  EXPECT_EQ((*tasks)[1].index, 5u);
  EXPECT_EQ(second.name(), "tune-5");
  EXPECT_EQ(second.data().dataset(), "part5");
  EXPECT_EQ(second.model().layers(0).name(), "a5");
  EXPECT_EQ(second.tenant(), "team-${index}");
  EXPECT_FALSE(second.has_array());
}

TEST_F(TasksOfTest, ValuesAreOneForEachTaskOrOneForAll) {
  Set("training.adam.learning_rate", {"0.1", "1e-2"});
  Set("training.seed", {"1${index}"});
  Set("training.benchmark", {"true"});
  Set("training.precision", {"bf16", "FP16"});
  Set("model.layers.0.name", {"x", "y"});
  const auto tasks = TasksOf(spec_);
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  const v1::TrainingSpec& second = (*tasks)[1].spec.training();
  EXPECT_EQ(second.adam().learning_rate(), 1e-2);
  EXPECT_EQ(second.seed(), 15u);
  EXPECT_TRUE(second.benchmark());
  EXPECT_EQ((*tasks)[0].spec.training().precision(), v1::BF16);
  EXPECT_EQ((*tasks)[1].spec.model().layers(0).name(), "y");
}

TEST_F(TasksOfTest, TheNumberOfValuesMustFit) {
  Set("training.seed", {"1", "2", "3"});
  EXPECT_THAT(Error(), HasSubstr("has 3 values for 2 tasks"));
}

TEST_F(TasksOfTest, UnknownFieldsAndWrongValuesAreNamed) {
  Set("training.sede", {"1"});
  EXPECT_THAT(Error(), HasSubstr("there is no \"sede\""));
  spec_.mutable_array()->clear_values();
  Set("training.seed", {"-1"});
  EXPECT_THAT(Error(), HasSubstr("\"training.seed\" cannot be \"-1\""));
  spec_.mutable_array()->clear_values();
  Set("training.adam", {"1"});
  EXPECT_THAT(Error(), HasSubstr("is not one number, string or boolean"));
  spec_.mutable_array()->clear_values();
  Set("model.layers.1.name", {"1"});
  EXPECT_THAT(Error(), HasSubstr("layers has 1 entries"));
}

TEST_F(TasksOfTest, AValueDoesNotThrowAnotherMemberAway) {
  Set("training.sgd.learning_rate", {"0.1"});
  EXPECT_THAT(Error(), HasSubstr("its optimizer is adam"));
}

TEST_F(TasksOfTest, WhatBelongsToTheWholeIsNotATasks) {
  for (const char* field : {"tenant", "priority", "hold", "queue", "after_ok",
                            "array.indices", "deadline.seconds"}) {
    spec_.mutable_array()->clear_values();
    Set(field, {"1"});
    EXPECT_THAT(Error(), HasSubstr("belongs to the whole array")) << field;
  }
}

}  // namespace
}  // namespace gpupool::server
