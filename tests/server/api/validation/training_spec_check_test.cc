#include "server/api/validation/training_spec_check.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

// Returns a valid spec, overwritten by the text.
v1::TrainingSpec Training(const std::string& text) {
  v1::TrainingSpec training, change;
  training.mutable_cross_entropy();
  training.mutable_adam();
  training.set_batch_size(32);
  training.set_epochs(2);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &change));
  training.MergeFrom(change);
  return training;
}

TEST(TrainingSpecCheckTest, EveryFieldMayBeUsed) {
  for (const char* text :
       {"",
        "bce_with_logits {}",
        "l1 {}",
        "huber { delta: 2 }",
        "negative_log_likelihood { ignore_label: -1 }",
        "kl_divergence {}",
        "rmsprop { alpha: 0.9 momentum: 0.5 centered: true }",
        "adagrad { initial_accumulator: 0.1 }",
        "lion { beta1: 0.95 }",
        "adamax { beta2: 0.99 epsilon: 1e-6 }",
        "clip_gradient_value: 1 accumulate_batches: 8",
        "trainable: 'head.*' freeze: '*.bias' ema { decay: 0.999 }",
        "early_stopping { patience: 3 } keep_best_checkpoints: 5 top_k: 5",
        "profile {}",
        "profile { skip_first: 10 wait: 100 warmup: 2 active: 5 repeat: 20 }",
        "profile { active: 100 }",
        "precision: BF16 benchmark: true deterministic: true",
        "precision: FP16",
        "precision: FP16 loss_scaling { initial: 1024 growth_factor: 1.5 "
        "backoff_factor: 0.25 growth_interval: 100 }",
        "mix { mixup_alpha: 0.2 }",
        "mix { mixup_alpha: 0.2 cutmix_alpha: 1 probability: 1 "
        "switch_probability: 0 }",
        "schedule { multi_step { milestones: [10, 20] } }",
        "schedule { constant {} }",
        "schedule { linear {} }",
        "schedule { exponential { gamma: 0.99 } }",
        "schedule { cosine_restarts { first_steps: 10 growth: 2 } }",
        "schedule { polynomial { power: 2 } }",
        "schedule { one_cycle { maximum: 0.1 } }",
        "schedule { plateau {} }",
        "schedule { cyclic { maximum: 0.1 up_steps: 10 } }"}) {
    const absl::Status status = CheckTrainingSpec(Training(text));
    EXPECT_TRUE(status.ok()) << text << ": " << status;
  }
}

TEST(TrainingSpecCheckTest, WhatIsOutOfRangeIsNamedByItsPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"precision: 9", "training.precision is 9"},
      {"precision: BF16 loss_scaling {}", "set precision: fp16"},
      {"precision: FP16 loss_scaling { initial: 0 }",
       "training.loss_scaling.initial is 0"},
      {"precision: FP16 loss_scaling { growth_factor: 1 }",
       "training.loss_scaling.growth_factor is 1"},
      {"precision: FP16 loss_scaling { backoff_factor: 1 }",
       "training.loss_scaling.backoff_factor is 1"},
      {"precision: FP16 loss_scaling { growth_interval: 0 }",
       "training.loss_scaling.growth_interval is 0"},
      {"mix { mixup_alpha: 0 }", "training.mix.mixup_alpha is 0"},
      {"mix { cutmix_alpha: 1001 }", "training.mix.cutmix_alpha is 1001"},
      {"mix { mixup_alpha: 1 probability: 2 }",
       "training.mix.probability is 2"},
      {"mix { mixup_alpha: 1 switch_probability: nan }",
       "training.mix.switch_probability is nan"},
      {"huber { delta: 0 }", "training.huber.delta is 0"},
      {"rmsprop { alpha: 1 }", "training.rmsprop.alpha is 1"},
      {"rmsprop { momentum: -1 }", "training.rmsprop.momentum is -1"},
      {"adagrad { lr_decay: -1 }", "training.adagrad.lr_decay is -1"},
      {"adagrad { epsilon: 0 }", "training.adagrad.epsilon is 0"},
      {"adamax { epsilon: 0 }", "training.adamax.epsilon is 0"},
      {"adamax { weight_decay: nan }", "training.adamax.weight_decay is nan"},
      {"lion { beta2: 1 }", "training.lion.beta2 is 1"},
      {"lion { learning_rate: 0 }", "training.lion.learning_rate is 0"},
      {"clip_gradient_value: -1", "training.clip_gradient_value is -1"},
      {"accumulate_batches: 4294967295", "training.accumulate_batches"},
      {"trainable: ''", "training.trainable has a pattern of 0 bytes"},
      {"freeze: ''", "training.freeze"},
      {"ema {}", "training.ema.decay is 0"},
      {"early_stopping {}", "training.early_stopping.patience is 0"},
      {"early_stopping { patience: 1 min_delta: -1 }", "min_delta is -1"},
      {"keep_best_checkpoints: 101", "training.keep_best_checkpoints is 101"},
      {"profile { wait: 2000000000000 }", "training.profile.wait is 2000"},
      {"profile { skip_first: 2000000000000 }", "training.profile.skip_first"},
      {"profile { warmup: 101 }", "training.profile.warmup is 101"},
      {"profile { active: 101 }", "training.profile.active is 101"},
      {"profile { repeat: 21 }", "training.profile.repeat is 21"},
      {"profile { active: 50 repeat: 3 }",
       "training.profile profiles 150 steps (3 cycles of 50); at most 100"},
      {"schedule { exponential {} }", "schedule.exponential.gamma is 0"},
      {"schedule { constant { factor: 2 } }", "schedule.constant.factor is 2"},
      {"schedule { linear { start_factor: -1 } }", "linear.start_factor is -1"},
      {"schedule { cosine_restarts {} }", "cosine_restarts.first_steps is 0"},
      {"schedule { polynomial { power: 0 } }", "polynomial.power is 0"},
      {"schedule { one_cycle {} }", "one_cycle.maximum is 0"},
      {"schedule { plateau { factor: 1 } }", "plateau.factor is 1"},
      {"schedule { cyclic { up_steps: 1 } }", "cyclic.maximum is 0"},
      {"schedule { cyclic { maximum: 1 } }", "cyclic.up_steps is 0"},
      {"schedule { multi_step { gamma: -1 } }", "multi_step.gamma is -1"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = CheckTrainingSpec(Training(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(message)) << text;
  }
}

TEST(TrainingSpecCheckTest, LossesReplaceTheOneLoss) {
  v1::TrainingSpec training = Training(
      "losses { output: 'a' target: 'y' weight: 0 l1 {} }"
      "losses { cross_entropy {} }");
  EXPECT_THAT(CheckTrainingSpec(training).message(),
              HasSubstr("training.losses replaces training's own loss"));
  training.clear_loss();
  EXPECT_TRUE(CheckTrainingSpec(training).ok()) << CheckTrainingSpec(training);
  training.mutable_losses(0)->set_weight(-2);
  EXPECT_THAT(CheckTrainingSpec(training).message(),
              HasSubstr("training.losses[0].weight is -2"));
  training.mutable_losses(0)->clear_weight();
  training.mutable_losses(1)->mutable_huber()->set_delta(-1);
  EXPECT_THAT(CheckTrainingSpec(training).message(),
              HasSubstr("training.losses[1].huber.delta is -1"));
  training.mutable_losses(1)->clear_loss();
  EXPECT_THAT(CheckTrainingSpec(training).message(),
              HasSubstr("training.losses[1]'s loss is not set"));
  for (int i = 0; i < 15; ++i) training.add_losses()->mutable_l1();
  EXPECT_THAT(CheckTrainingSpec(training).message(),
              HasSubstr("training.losses is 17; it must be 1 .. 16"));
}

}  // namespace
}  // namespace gpupool::server
