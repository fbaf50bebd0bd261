#include "server/api/validation/job_spec_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

v1::JobSpec GoodSpec() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_model()->add_input_shape(64);
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  spec.mutable_data()->set_dataset("digits");
  spec.mutable_training()->mutable_cross_entropy();
  spec.mutable_training()->mutable_adam();
  spec.mutable_training()->set_batch_size(32);
  spec.mutable_training()->set_epochs(2);
  return spec;
}

struct Bad {
  std::function<void(v1::JobSpec*)> change;
  std::vector<std::string> fragments;
};

void ExpectRefused(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) {
    v1::JobSpec spec = GoodSpec();
    bad.change(&spec);
    const absl::Status status = CheckJobSpec(&spec);
    EXPECT_TRUE(absl::IsInvalidArgument(status))
        << bad.fragments[0] << ": " << status;
    for (const std::string& fragment : bad.fragments) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
    }
  }
}

TEST(CheckJobSpecTest, FillsDefaultsSoThatEqualRequestsAreEqual) {
  v1::JobSpec spec = GoodSpec();
  const absl::Status status = CheckJobSpec(&spec);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(spec.tenant(), "default");
  EXPECT_EQ(spec.retry().max_attempts(), 3u);
  EXPECT_EQ(spec.retry().backoff_seconds(), 1);
  EXPECT_EQ(spec.publish().serving().max_batch_size(), 32u);
  v1::JobSpec again = spec;
  again.set_devices(1);
  again.set_queue("default");
  ASSERT_TRUE(CheckJobSpec(&again).ok());
  EXPECT_EQ(again.SerializeAsString(), spec.SerializeAsString());
}

TEST(CheckJobSpecTest, NamesAndNumbersOfTheJob) {
  ExpectRefused({
      {[](v1::JobSpec* s) { s->clear_name(); }, {"name is not set"}},
      {[](v1::JobSpec* s) { s->set_tenant("a/b"); }, {"tenant", "a/b"}},
      {[](v1::JobSpec* s) { s->set_queue("a/b"); }, {"queue", "a/b"}},
      {[](v1::JobSpec* s) { s->set_priority(1001); }, {"priority", "1001"}},
      {[](v1::JobSpec* s) { s->set_priority(INT32_MIN); }, {"priority"}},
      {[](v1::JobSpec* s) { s->set_min_devices(2); },
       {"min_devices is 2", "max_devices"}},
      {[](v1::JobSpec* s) {
         s->set_devices(2);
         s->set_max_devices(4);
       },
       {"devices is 2", "max_devices is 4", "either"}},
      {[](v1::JobSpec* s) {
         s->set_min_devices(5);
         s->set_max_devices(4);
       },
       {"min_devices is 5", "max_devices is 4"}},
      {[](v1::JobSpec* s) { s->set_host_cores(-1); }, {"host_cores is -1"}},
      {[](v1::JobSpec* s) { s->set_host_cores(NAN); }, {"host_cores is nan"}},
      {[](v1::JobSpec* s) { s->set_host_bytes(UINT64_MAX); },
       {"host_bytes is 18446744073709551615", "1125899906842624"}},
      {[](v1::JobSpec* s) {
         s->set_devices(2);
         s->mutable_training()->mutable_profile();
       },
       {"training.profile", "2 devices"}},
      {[](v1::JobSpec* s) {
         s->set_min_devices(1);
         s->set_max_devices(4);
         s->mutable_training()->mutable_profile();
       },
       {"training.profile", "4 devices"}},
      {[](v1::JobSpec* s) { s->set_max_devices(1025); },
       {"max_devices is 1025", "1 .. 1024"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->set_batch_size(32);
         s->set_min_devices(5);
         s->set_max_devices(7);
       },
       {"min_devices 5", "max_devices 7", "batch_size 32"}},
      {[](v1::JobSpec* s) { s->set_devices(1025); },
       {"devices is 1025", "1 .. 1024"}},
      {[](v1::JobSpec* s) { s->set_device("tpu"); },
       {"device is \"tpu\"", "cuda", "cpu"}},
      {[](v1::JobSpec* s) {
         s->set_device("cuda:1");
         s->set_devices(2);
       },
       {"cuda:1", "up to 2", "`device: cuda`"}},
      {[](v1::JobSpec* s) { s->mutable_publish()->set_model(".x"); },
       {"publish.model"}},
      {[](v1::JobSpec* s) { s->mutable_retry()->set_max_attempts(0); },
       {"retry.max_attempts", "0"}},
      {[](v1::JobSpec* s) { s->mutable_retry()->set_backoff_seconds(-1); },
       {"retry.backoff_seconds", "-1"}},
  });
}

TEST(CheckJobSpecTest, Data) {
  ExpectRefused({
      {[](v1::JobSpec* s) { s->mutable_data()->clear_dataset(); },
       {"data.dataset"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_held_out()->set_every(1);
       },
       {"held_out.every", "1", "2 or more"}},
      {[](v1::JobSpec* s) { s->mutable_data()->mutable_synthetic(); },
       {"data.dataset and data.synthetic are both set"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_held_out()->set_last(0);
       },
       {"held_out.last"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()
             ->mutable_held_out()
             ->mutable_fraction()
             ->set_fraction(1);
       },
       {"fraction is 1", "0 < x < 1"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_held_out()->mutable_fold()->set_of(1);
       },
       {"held_out.fold is part 0 of 1"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_scaling()->set_multiply(NAN);
       },
       {"scaling.multiply", "finite"}},
      {[](v1::JobSpec* s) {
         for (int i = 0; i < 33; ++i) s->mutable_data()->add_transforms();
       },
       {"data.transforms has 33", "at most 32"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_window()->set_stride(2);
       },
       {"data.window.length is 0", "1 .. 65536"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_window()->set_length(9);
         s->mutable_data()->mutable_window()->set_horizon(65537);
       },
       {"data.window.horizon is 65537", "at most 65536 rows"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_loader()->set_workers(65);
       },
       {"data.loader.workers is 65", "at most 64"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_loader()->set_workers(1);
         s->mutable_data()->mutable_loader()->set_prefetch(257);
       },
       {"data.loader.prefetch is 257", "at most 256"}},
  });
}

TEST(CheckJobSpecTest, Training) {
  ExpectRefused({
      {[](v1::JobSpec* s) { s->mutable_training()->clear_loss(); },
       {"loss", "cross_entropy"}},
      {[](v1::JobSpec* s) { s->mutable_training()->clear_optimizer(); },
       {"optimizer", "adamw"}},
      {[](v1::JobSpec* s) { s->mutable_training()->clear_length(); },
       {"length", "epochs or steps"}},
      {[](v1::JobSpec* s) { s->mutable_training()->set_epochs(0); },
       {"training.epochs is 0"}},
      {[](v1::JobSpec* s) { s->mutable_training()->set_steps(UINT64_MAX); },
       {"training.steps"}},
      {[](v1::JobSpec* s) { s->mutable_training()->set_batch_size(0); },
       {"batch_size is 0"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->set_clip_gradient_norm(NAN);
       },
       {"clip_gradient_norm is nan"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_cross_entropy()->set_label_smoothing(1);
       },
       {"label_smoothing"}},
      {[](v1::JobSpec* s) {
         auto* loss = s->mutable_training()->mutable_cross_entropy();
         loss->add_class_weights(0);
         loss->add_class_weights(-1);
       },
       {"training.cross_entropy.class_weights[1] is -1"}},
      {[](v1::JobSpec* s) {
         auto* loss = s->mutable_training()->mutable_negative_log_likelihood();
         loss->add_class_weights(1e39);
       },
       {"negative_log_likelihood.class_weights[0] is 1e+39", "float32"}},
      {[](v1::JobSpec* s) {
         auto* loss = s->mutable_training()->mutable_bce_with_logits();
         loss->add_positive_weights(0);
       },
       {"bce_with_logits.positive_weights[0] is 0"}},
      {[](v1::JobSpec* s) {
         s->mutable_data()->mutable_held_out()->set_every(5);
         s->mutable_data()->set_validation("val");
       },
       {"data.held_out and data.validation are both set"}},
      {[](v1::JobSpec* s) { s->mutable_data()->set_validation("a b"); },
       {"data.validation"}},
      {[](v1::JobSpec* s) { s->mutable_training()->add_groups(); },
       {"training.groups[0].weights is not set"}},
      {[](v1::JobSpec* s) {
         auto* group = s->mutable_training()->add_groups();
         group->add_weights("*");
         group->set_learning_rate_factor(-1);
       },
       {"training.groups[0].learning_rate_factor is -1"}},
      {[](v1::JobSpec* s) {
         auto* group = s->mutable_training()->add_groups();
         group->add_weights("");
       },
       {"training.groups[0].weights has a pattern of 0 bytes"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_schedule()->mutable_step();
       },
       {"every_steps"}},
  });
}

TEST(CheckJobSpecTest, Optimizers) {
  ExpectRefused({
      {[](v1::JobSpec* s) { s->mutable_training()->mutable_sgd(); },
       {"sgd.learning_rate is 0", "above 0"}},
      // Both would be other numbers in a program, 0 and infinity.
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_sgd()->set_learning_rate(1e-50);
       },
       {"sgd.learning_rate is 1e-50", "1.4e-45 .. 3.4e38"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_sgd()->set_learning_rate(1e39);
       },
       {"sgd.learning_rate is 1e+39", "1.4e-45 .. 3.4e38"}},
      {[](v1::JobSpec* s) { s->set_name("digits-${index}"); },
       {"${index}", "`array: {indices: 0-9}`"}},
      {[](v1::JobSpec* s) { s->set_tenant("a..b"); },
       {"tenant is \"a..b\"", "between two levels"}},
      {[](v1::JobSpec* s) {
         auto* sgd = s->mutable_training()->mutable_sgd();
         sgd->set_learning_rate(0.1);
         sgd->set_nesterov(true);
       },
       {"nesterov", "momentum"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_adam()->set_beta1(1);
       },
       {"adam.beta1 is 1"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_adamw()->set_learning_rate(INFINITY);
       },
       {"adamw.learning_rate is inf"}},
      {[](v1::JobSpec* s) {
         s->mutable_training()->mutable_adamw()->set_weight_decay(-1);
       },
       {"adamw.weight_decay is -1"}},
  });
}

TEST(CheckModelSpecTest, Shapes) {
  ExpectRefused({
      {[](v1::JobSpec* s) { s->mutable_model()->clear_input_shape(); },
       {"model.input_shape has 0"}},
      {[](v1::JobSpec* s) { s->mutable_model()->set_input_shape(0, 0); },
       {"input_shape holds 0"}},
      {[](v1::JobSpec* s) {
         for (int i = 0; i < 6; ++i) {
           s->mutable_model()->add_input_shape(INT64_MAX);
         }
       },
       {"2^31"}},
      // The batch is the eighth dimension.
      {[](v1::JobSpec* s) {
         for (int i = 0; i < 7; ++i) s->mutable_model()->add_input_shape(1);
       },
       {"model.input_shape has 8", "1 .. 7"}},
      {[](v1::JobSpec* s) {
         for (int i = 0; i < 8; ++i) s->mutable_model()->add_input_shape(1);
       },
       {"9 dimensions"}},
  });
}

TEST(CheckModelSpecTest, Layers) {
  ExpectRefused({
      {[](v1::JobSpec* s) { s->mutable_model()->clear_layers(); },
       {"model.layers has 0"}},
      {[](v1::JobSpec* s) { s->mutable_model()->add_layers(); },
       {"model.layers[1] has no kind"}},
      {[](v1::JobSpec* s) {
         s->mutable_model()->mutable_layers(0)->set_name("a b");
       },
       {"model.layers[0].name", "a b"}},
      {[](v1::JobSpec* s) {
         s->mutable_model()->mutable_layers(0)->set_name("input");
       },
       {"input"}},
      {[](v1::JobSpec* s) {
         s->mutable_model()->mutable_layers(0)->set_name("fc");
         *s->mutable_model()->add_layers() = s->model().layers(0);
       },
       {"model.layers[1].name", "fc", "earlier"}},
      {[](v1::JobSpec* s) {
         for (int i = 0; i < 10'000; ++i) {
           s->mutable_model()->add_layers()->mutable_relu();
         }
       },
       {"10001", "10000"}},
  });
}

TEST(CheckModelSpecTest, ANamedModelHasNeitherLayersNorAFile) {
  v1::ModelSpec spec;
  const auto error = [&spec] {
    return std::string(CheckModelSpec("model", spec).message());
  };
  spec.mutable_named();
  EXPECT_THAT(error(), HasSubstr("model.named has no name"));
  spec.mutable_named()->mutable_resnet18();
  EXPECT_EQ(error(), "");
  spec.add_input_shape(0);
  EXPECT_THAT(error(), HasSubstr("model.input_shape holds 0"));
  spec.set_input_shape(0, 3);
  EXPECT_EQ(error(), "");
  spec.add_layers()->mutable_relu();
  EXPECT_THAT(error(), HasSubstr("both named and layers"));
  spec.clear_layers();
  spec.mutable_onnx();
  EXPECT_THAT(error(), HasSubstr("both named and onnx"));
}

TEST(CheckModelSpecTest, WeightsAreAStoredFile) {
  v1::ModelSpec spec;
  spec.mutable_onnx()->set_sha256(std::string(64, 'a'));
  spec.mutable_onnx()->set_bytes(5);
  v1::WeightsFile& weights = *spec.mutable_weights();
  const auto error = [&spec] {
    return std::string(CheckModelSpec("model", spec).message());
  };
  EXPECT_THAT(error(), HasSubstr("model.weights.sha256"));
  weights.set_sha256(std::string(64, 'b'));
  EXPECT_THAT(error(), HasSubstr("model.weights.bytes is 0"));
  weights.set_bytes(9);
  EXPECT_EQ(error(), "");
  weights.set_file("w.safetensors");
  EXPECT_THAT(error(), HasSubstr("model.weights.file is for job files"));
}

TEST(CheckModelSpecTest, AnOnnxModelNamesItsFiles) {
  v1::ModelSpec spec;
  v1::OnnxModel& onnx = *spec.mutable_onnx();
  onnx.set_sha256(std::string(64, 'a'));
  onnx.set_bytes(5);
  (*onnx.mutable_dimensions())["sequence"] = 128;
  v1::ExternalFile& file = *onnx.add_external_files();
  file.set_location("data/weights.bin");
  file.set_sha256(std::string(64, 'b'));
  file.set_bytes(9);
  EXPECT_TRUE(CheckModelSpec("model", spec).ok());
  const auto error = [&spec] {
    const absl::Status status = CheckModelSpec("model", spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  for (const char* location :
       {"", "/etc/passwd", "../x", "a//b", "a/.", "a\\b"}) {
    SCOPED_TRACE(location);
    file.set_location(location);
    EXPECT_THAT(error(), HasSubstr("must be inside"));
  }
  file.set_location("w");
  file.set_sha256("B");
  EXPECT_THAT(error(), HasSubstr("external_files.sha256"));
  file.set_sha256(std::string(64, 'b'));
  *onnx.add_external_files() = file;
  EXPECT_THAT(error(), HasSubstr("twice"));
  onnx.clear_external_files();
  (*onnx.mutable_dimensions())["sequence"] = 0;
  EXPECT_TRUE(CheckModelSpec("model", spec).ok());
  (*onnx.mutable_dimensions())["sequence"] = -1;
  EXPECT_THAT(error(), HasSubstr("sequence"));
  onnx.clear_dimensions();
  auto& numbers = (*onnx.mutable_bound_inputs())["shape"];
  numbers.mutable_numbers()->Resize(1 << 20, 0);
  EXPECT_TRUE(CheckModelSpec("model", spec).ok());
  numbers.mutable_numbers()->Resize((1 << 20) + 1, 0);
  EXPECT_THAT(error(), HasSubstr("1048577 numbers, the limit is 1048576"));
  onnx.clear_bound_inputs();
  auto& sizes = (*onnx.mutable_served_dimensions())["sequence"];
  sizes.mutable_sizes()->Resize(1001, 1);
  EXPECT_THAT(error(), HasSubstr("lists 1001 sizes, the limit is 1000"));
  onnx.clear_served_dimensions();
  (*onnx.mutable_derived_dimensions())["total"] = std::string(257, 'a');
  EXPECT_THAT(error(), HasSubstr("\"total\" has 257 bytes, the limit is 256"));
  onnx.clear_derived_dimensions();
  onnx.set_file("model.onnx");
  EXPECT_THAT(error(), HasSubstr("is for job files"));
  onnx.clear_file();
  spec.add_input_shape(3);
  EXPECT_THAT(error(), HasSubstr("both onnx and layers"));
}

}  // namespace
}  // namespace gpupool::server
