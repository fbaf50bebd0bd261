#include "server/api/job_spec_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/api/convert.h"

namespace gpupool::server {
namespace {

constexpr int32_t kMaxPriority = 1000;
constexpr int kMaxLayers = 10'000;
constexpr int kMaxRank = 8;
constexpr int kMaxExternalFiles = 1000;
constexpr size_t kMaxLocationBytes = 4096;
constexpr int kMaxDimensions = 1000;
constexpr int64_t kMaxElements = int64_t{1} << 31;
constexpr uint32_t kMaxBatch = 1 << 20;
constexpr uint32_t kDefaultAttempts = 3;
constexpr uint32_t kMaxAttempts = 100;
constexpr double kDefaultBackoffSeconds = 1;
constexpr double kMaxBackoffSeconds = 3600;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status Missing(absl::string_view field, absl::string_view choices) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is not set; choose ", choices));
}

// An interval with its ends; `text` is how a person writes it.
struct Range {
  double low;
  double high;
  bool low_belongs;
  bool high_belongs;
  const char* text;
};
constexpr Range kShare{0, 1, true, false, "0 <= x < 1"};
constexpr Range kInside{0, 1, false, false, "0 < x < 1"};
constexpr Range kPositive{0, kInfinity, false, false, "a number above 0"};
constexpr Range kNotNegative{0, kInfinity, true, false, "a number from 0 up"};

// NaN is in no range.
absl::Status CheckRange(absl::string_view field, double value,
                        const Range& range) {
  const bool above =
      value > range.low || (range.low_belongs && value == range.low);
  const bool below =
      value < range.high || (range.high_belongs && value == range.high);
  if (above && below) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be ", range.text));
}

absl::Status CheckHeldOut(const v1::HeldOut& held_out) {
  switch (held_out.rule_case()) {
    case v1::HeldOut::kEvery:
      if (held_out.every() >= 2) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("data.held_out.every is ",
                                                     held_out.every(),
                                                     "; it must be 2 or more"));
    case v1::HeldOut::kLast:
      if (held_out.last() >= 1) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "data.held_out.last is 0; it must be 1 or more");
    case v1::HeldOut::kFraction:
      return CheckRange("data.held_out.fraction.fraction",
                        held_out.fraction().fraction(), kInside);
    case v1::HeldOut::RULE_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckData(const v1::DataSpec& data) {
  RETURN_IF_ERROR(CheckName("data.dataset", data.dataset()));
  RETURN_IF_ERROR(CheckHeldOut(data.held_out()));
  const v1::Scaling& scaling = data.scaling();
  if (scaling.rule_case() != v1::Scaling::kMultiply) return absl::OkStatus();
  if (std::isfinite(scaling.multiply()) && scaling.multiply() != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data.scaling.multiply is ", scaling.multiply(),
                   "; it must be a finite number other than 0"));
}

absl::Status CheckSgd(const v1::Sgd& sgd) {
  RETURN_IF_ERROR(
      CheckRange("training.sgd.learning_rate", sgd.learning_rate(), kPositive));
  RETURN_IF_ERROR(CheckRange("training.sgd.momentum", sgd.momentum(), kShare));
  RETURN_IF_ERROR(CheckRange("training.sgd.weight_decay", sgd.weight_decay(),
                             kNotNegative));
  RETURN_IF_ERROR(
      CheckRange("training.sgd.dampening", sgd.dampening(), kShare));
  if (!sgd.nesterov() || (sgd.momentum() > 0 && sgd.dampening() == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "training.sgd.nesterov needs a momentum above 0 and no dampening");
}

// Adam and AdamW have the same fields.
template <typename Optimizer>
absl::Status CheckAdam(const std::string& field, const Optimizer& adam) {
  if (adam.has_learning_rate()) {
    RETURN_IF_ERROR(
        CheckRange(field + ".learning_rate", adam.learning_rate(), kPositive));
  }
  if (adam.has_beta1()) {
    RETURN_IF_ERROR(CheckRange(field + ".beta1", adam.beta1(), kShare));
  }
  if (adam.has_beta2()) {
    RETURN_IF_ERROR(CheckRange(field + ".beta2", adam.beta2(), kShare));
  }
  if (adam.has_epsilon()) {
    RETURN_IF_ERROR(CheckRange(field + ".epsilon", adam.epsilon(), kPositive));
  }
  return CheckRange(field + ".weight_decay", adam.weight_decay(), kNotNegative);
}

absl::Status CheckOptimizer(const v1::TrainingSpec& training) {
  switch (training.optimizer_case()) {
    case v1::TrainingSpec::kSgd:
      return CheckSgd(training.sgd());
    case v1::TrainingSpec::kAdam:
      return CheckAdam("training.adam", training.adam());
    case v1::TrainingSpec::kAdamw:
      return CheckAdam("training.adamw", training.adamw());
    default:
      return Missing("training's optimizer", "sgd, adam or adamw");
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const v1::LearningRateSchedule& schedule) {
  if (schedule.has_step()) {
    if (schedule.step().every_steps() == 0) {
      return absl::InvalidArgumentError(
          "training.schedule.step.every_steps is 0; it must be 1 or more");
    }
    return CheckRange("training.schedule.step.gamma", schedule.step().gamma(),
                      kNotNegative);
  }
  if (schedule.has_cosine()) {
    return CheckRange("training.schedule.cosine.minimum",
                      schedule.cosine().minimum(), kNotNegative);
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const v1::TrainingSpec& training) {
  if (training.length_case() == v1::TrainingSpec::LENGTH_NOT_SET) {
    return Missing("training's length", "epochs or steps");
  }
  const bool by_epochs = training.length_case() == v1::TrainingSpec::kEpochs;
  const uint64_t length = by_epochs ? training.epochs() : training.steps();
  if (length >= 1 && length <= uint64_t{1} << 48) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("training.", by_epochs ? "epochs" : "steps", " is ", length,
                   "; it must be 1 or more (at most 2^48)"));
}

absl::Status CheckTraining(const v1::TrainingSpec& training) {
  if (training.loss_case() == v1::TrainingSpec::LOSS_NOT_SET) {
    return Missing("training's loss", "cross_entropy or mean_squared_error");
  }
  RETURN_IF_ERROR(CheckRange("training.cross_entropy.label_smoothing",
                             training.cross_entropy().label_smoothing(),
                             kShare));
  RETURN_IF_ERROR(CheckOptimizer(training));
  if (training.batch_size() < 1 || training.batch_size() > kMaxBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.batch_size is ", training.batch_size(),
                     "; it must be 1 .. ", kMaxBatch));
  }
  RETURN_IF_ERROR(CheckLength(training));
  RETURN_IF_ERROR(CheckRange("training.clip_gradient_norm",
                             training.clip_gradient_norm(), kNotNegative));
  return CheckSchedule(training.schedule());
}

absl::Status CheckRetry(v1::RetrySpec* retry) {
  if (!retry->has_max_attempts()) retry->set_max_attempts(kDefaultAttempts);
  if (retry->backoff_seconds() == 0) {
    retry->set_backoff_seconds(kDefaultBackoffSeconds);
  }
  if (retry->max_attempts() < 1 || retry->max_attempts() > kMaxAttempts) {
    return absl::InvalidArgumentError(
        absl::StrCat("retry.max_attempts is ", retry->max_attempts(),
                     "; it must be 1 .. ", kMaxAttempts));
  }
  if (retry->backoff_seconds() > 0 &&
      retry->backoff_seconds() <= kMaxBackoffSeconds) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("retry.backoff_seconds is ", retry->backoff_seconds(),
                   "; it must be above 0 and at most ", kMaxBackoffSeconds));
}

absl::Status CheckPublish(v1::PublishSpec* publish) {
  if (!publish->model().empty()) {
    RETURN_IF_ERROR(CheckName("publish.model", publish->model()));
  }
  return CheckServingOptions("publish.serving", publish->mutable_serving());
}

absl::Status CheckInputShape(absl::string_view field,
                             const v1::ModelSpec& spec) {
  if (spec.input_shape_size() < 1 || spec.input_shape_size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".input_shape has ", spec.input_shape_size(),
                     " dimensions; it must have 1 .. ", kMaxRank));
  }
  int64_t elements = 1;
  for (const int64_t size : spec.input_shape()) {
    if (size < 1 || size > kMaxElements / elements) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".input_shape holds ", size,
          "; each size must be 1 or more and their product at most 2^31"));
    }
    elements *= size;
  }
  return absl::OkStatus();
}

bool IsLayerNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.';
}

absl::Status CheckLayerName(const std::string& field, const std::string& name) {
  constexpr size_t kMaxBytes = 128;
  if (name.size() <= kMaxBytes && name != "input" &&
      std::all_of(name.begin(), name.end(), IsLayerNameByte)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".name is ", Quoted(name),
      "; a layer's name has at "
      "most ",
      kMaxBytes, " letters, digits, '_' or '.' and is not \"input\""));
}

absl::Status CheckModelFile(absl::string_view field, const std::string& sha256,
                            uint64_t bytes) {
  if (!engine::IsSha256Hex(sha256)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".sha256 is ", Quoted(sha256),
                     "; it must be 64 lower-case hex digits"));
  }
  if (bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ".bytes is 0"));
}

// Relative, without "..", "." or empty parts.
bool IsPlainLocation(absl::string_view location) {
  if (location.empty() || location.size() > kMaxLocationBytes ||
      absl::StrContains(location, '\0') || absl::StrContains(location, '\\')) {
    return false;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(location, '/');
  return std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

absl::Status CheckOnnx(const std::string& field, const v1::OnnxModel& onnx) {
  if (!onnx.file().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".file is for job files; upload the file and give its sha256"));
  }
  RETURN_IF_ERROR(CheckModelFile(field, onnx.sha256(), onnx.bytes()));
  if (onnx.external_files_size() > kMaxExternalFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".external_files has ", onnx.external_files_size(),
                     " entries, the limit is ", kMaxExternalFiles));
  }
  absl::flat_hash_set<std::string> locations;
  for (const v1::ExternalFile& file : onnx.external_files()) {
    RETURN_IF_ERROR(CheckModelFile(absl::StrCat(field, ".external_files"),
                                   file.sha256(), file.bytes()));
    if (!IsPlainLocation(file.location())) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".external_files.location is ", Quoted(file.location()),
          "; it must lead down from the model's folder"));
    }
    if (locations.insert(file.location()).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".external_files names ", Quoted(file.location()), " twice"));
  }
  if (onnx.dimensions_size() + onnx.unbatched_inputs_size() > kMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has more than ", kMaxDimensions,
                     " dimensions and unbatched_inputs"));
  }
  for (const auto& [name, size] : onnx.dimensions()) {
    if (size >= 1 && size <= kMaxElements) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".dimensions: ", Quoted(name), " is ", size,
                     "; it must be 1 .. ", kMaxElements));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModelSpec(absl::string_view field,
                            const v1::ModelSpec& spec) {
  if (spec.has_onnx()) {
    if (spec.layers_size() == 0 && spec.input_shape_size() == 0) {
      return CheckOnnx(absl::StrCat(field, ".onnx"), spec.onnx());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has both onnx and layers; a model is one of them"));
  }
  RETURN_IF_ERROR(CheckInputShape(field, spec));
  if (spec.layers_size() < 1 || spec.layers_size() > kMaxLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".layers has ", spec.layers_size(),
                     " layers; a model has 1 .. ", kMaxLayers));
  }
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < spec.layers_size(); ++i) {
    const v1::Layer& layer = spec.layers(i);
    const std::string where = absl::StrCat(field, ".layers[", i, "]");
    if (layer.kind_case() == v1::Layer::KIND_NOT_SET) {
      return absl::InvalidArgumentError(absl::StrCat(
          where,
          " has no kind that this server knows; see the list of layers "
          "in model.proto"));
    }
    RETURN_IF_ERROR(CheckLayerName(where, layer.name()));
    if (layer.name().empty() || names.insert(layer.name()).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".name is ", Quoted(layer.name()),
                     ", which an earlier layer has already"));
  }
  return absl::OkStatus();
}

absl::Status CheckJobSpec(v1::JobSpec* spec) {
  RETURN_IF_ERROR(CheckName("name", spec->name()));
  if (spec->tenant().empty()) spec->set_tenant("default");
  RETURN_IF_ERROR(CheckName("tenant", spec->tenant()));
  if (std::abs(int64_t{spec->priority()}) > kMaxPriority) {
    return absl::InvalidArgumentError(
        absl::StrCat("priority is ", spec->priority(), "; it must be -",
                     kMaxPriority, " .. ", kMaxPriority));
  }
  const std::string& kind = spec->device_kind();
  if (!kind.empty() && kind != "cpu" && kind != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("device_kind is ", Quoted(kind),
                     "; it must be empty, \"cpu\" or \"cuda\""));
  }
  RETURN_IF_ERROR(CheckModelSpec("model", spec->model()));
  RETURN_IF_ERROR(CheckData(spec->data()));
  RETURN_IF_ERROR(CheckTraining(spec->training()));
  RETURN_IF_ERROR(CheckPublish(spec->mutable_publish()));
  return CheckRetry(spec->mutable_retry());
}

}  // namespace gpupool::server
