// Trains on rows whose tokens random_mask hides.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/train/training_run.h"
#include "tests/engine/data/files.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kMaskedTokens = 8;
constexpr int kMaskRows = 22;
constexpr char kHide[] =
    "transforms { random_mask { p: 0.4 mask_token: 5 vocabulary: 5 } }";
constexpr char kIgnore[] = "cross_entropy { ignore_label: -100 }";

class TrainingMasksTest : public RunFixture {
 protected:
  // Returns a net that tells 5 tokens apart; token 5 stands for hidden ones.
  static std::string Onnx() {
    onnx::ModelProto model = onnx_import::ModelOfGraph(
        "(int64[N, 8] ids) => (float[N, 8, 5] logits) "
        "{ e = Gather(table, ids) h = Tanh(e) logits = MatMul(h, w) }");
    const auto add = [&model](const std::string& name, int64_t rows,
                              int64_t columns) {
      auto* tensor = model.mutable_graph()->add_initializer();
      tensor->set_name(name);
      tensor->set_data_type(onnx::TensorProto::FLOAT);
      tensor->add_dims(rows);
      tensor->add_dims(columns);
      for (int64_t i = 0; i < rows * columns; ++i) {
        tensor->add_float_data(static_cast<float>(i * 7 % 11 - 5) / 10);
      }
    };
    add("table", 6, 4);
    add("w", 4, 5);
    return model.SerializeAsString();
  }

  // Stores tokens, which are their own labels, and a class for each row.
  v1::Dataset StoreTokens() {
    Philox random(3);
    std::string tokens, classes;
    for (int i = 0; i < kMaskRows; ++i) {
      for (int k = 0; k < kMaskedTokens; ++k) {
        tokens += files::Little(random.NextBelow(5), 8);
      }
      classes += files::Little(static_cast<uint64_t>(i % 5), 8);
    }
    v1::Dataset dataset = StoreNpz(files::Zip(
        {{"tokens.npy",
          files::Npy("<i8", absl::StrCat("(", kMaskRows, ", 8)"), tokens)},
         {"class.npy",
          files::Npy("<i8", absl::StrCat("(", kMaskRows, ",)"), classes)}},
        false));
    v1::DatasetLayout& layout = *dataset.mutable_layout();
    (*layout.mutable_input_arrays())["ids"] = "tokens";
    (*layout.mutable_target_arrays())["ids"] = "tokens";
    return dataset;
  }

  // Returns a job of three epochs with batches of 4 rows.
  v1::JobSpec Job(const std::string& data, const std::string& loss = kIgnore) {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("data { drop_last: false ", data, " } training { ", loss,
                     " adam { learning_rate: 0.01 } batch_size: 4 epochs: 3 "
                     "seed: 4 }"),
        &spec));
    StoreModel(Onnx(), spec);
    return spec;
  }

  std::string ErrorOfStart(const v1::JobSpec& spec) {
    const auto run = StartRun(spec, StoreTokens());
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(run.status().message());
  }
};

TEST_F(TrainingMasksTest, AnyNumberOfWorkersGivesTheSameBits) {
  const v1::Dataset dataset = StoreTokens();
  auto plain = StartRun(Job(kHide), dataset);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const uint64_t steps = (*plain)->total_steps();
  EXPECT_EQ(steps, 18u) << "five batches of 4 rows and one of 2";
  const std::string wanted = SavedAt(**plain, steps);
  auto unmasked = StartRun(Job(""), dataset);
  ASSERT_TRUE(unmasked.ok()) << unmasked.status();
  EXPECT_NE(SavedAt(**unmasked, steps), wanted);
  for (const char* loader :
       {"workers: 1 prefetch: 1", "workers: 3 prefetch: 7"}) {
    SCOPED_TRACE(loader);
    auto run =
        StartRun(Job(absl::StrCat(kHide, " loader { ", loader, " }")), dataset);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(SavedAt(**run, steps), wanted);
  }
}

TEST_F(TrainingMasksTest, AnInterruptedRunEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreTokens();
  const v1::JobSpec spec = Job(absl::StrCat(kHide, " loader { workers: 2 }"));
  auto whole = StartRun(spec, dataset);
  auto first = StartRun(spec, dataset);
  ASSERT_TRUE(whole.ok() && first.ok()) << whole.status();
  auto second = StartRun(spec, dataset, SavedAt(**first, 4));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(SavedAt(**second, 18), SavedAt(**whole, 18));
}

TEST_F(TrainingMasksTest, EvaluationsHideTheSameTokens) {
  const v1::Dataset dataset = StoreTokens();
  const std::string held_out = " held_out { last: 6 }";
  auto run = StartRun(Job(absl::StrCat(kHide, held_out)), dataset);
  auto plain = StartRun(Job(held_out), dataset);
  ASSERT_TRUE(run.ok() && plain.ok()) << run.status();
  const auto first = (*run)->Evaluate();
  const auto second = (*run)->Evaluate();
  const auto unmasked = (*plain)->Evaluate();
  ASSERT_TRUE(first.ok() && second.ok() && unmasked.ok()) << first.status();
  EXPECT_EQ(first->loss(), second->loss());
  EXPECT_NE(first->loss(), unmasked->loss());
}

TEST_F(TrainingMasksTest, WhatCannotBeMaskedIsRefusedAtTheStart) {
  EXPECT_EQ(ErrorOfStart(Job(kHide, "cross_entropy {}")),
            "data.transforms[0].random_mask: training is cross_entropy without "
            "ignore_label, but labels of tokens that stay must count nowhere; "
            "use cross_entropy: {ignore_label: -100}");
  EXPECT_THAT(ErrorOfStart(Job(absl::StrCat(kHide, kHide))),
              HasSubstr("data.transforms[1].random_mask: the input 'ids' has "
                        "another random_mask before"));
  EXPECT_THAT(
      ErrorOfStart(Job("transforms { random_mask { mask_token: 5 vocabulary: "
                       "5 target: 'class' } }")),
      HasSubstr("target: the dataset has no target 'class'; it has 'ids'"));
  EXPECT_THAT(ErrorOfStart(Job("transforms { random_mask { vocabulary: 5 } }")),
              HasSubstr("random_mask: mask_token is missing"));
  EXPECT_THAT(ErrorOfStart(Job("transforms { random_mask { mask_token: 6 "
                               "vocabulary: 5 } }")),
              HasSubstr("mask_token is 6, but the model's 'table' has 6 "
                        "entries"));
}

TEST_F(TrainingMasksTest, OneOfSeveralLossesMayReadTheLabels) {
  const std::string losses =
      "losses { output: 'logits' target: 'ids' cross_entropy { ignore_label: "
      "-100 } } losses { output: 'logits' target: 'ids' weight: 0.5 "
      "cross_entropy { ignore_label: -1 label_smoothing: 0.1 } }";
  EXPECT_THAT(ErrorOfStart(Job(kHide, losses)),
              HasSubstr("the job has 2 losses; set target to that of the "
                        "dataset"));
  auto run = StartRun(Job("transforms { random_mask { p: 0.4 mask_token: 5 "
                          "vocabulary: 5 target: 'ids' } }",
                          losses),
                      StoreTokens());
  ASSERT_TRUE(run.ok()) << run.status();
  MakeSteps(**run, 6);
}

}  // namespace
}  // namespace gpupool::engine
